// sluice status: how the service is, at a glance.
import type {Command} from 'commander'
import {readProcesses} from '../service/home.ts'
import {action, leaf, type Sluice} from './command.ts'
import {facts, moment, table} from './output.ts'
import {treasuriesOf} from './treasury.ts'

interface ChainStatus {
  chain: string
  /** Where the node is local; null where the service has no node for the chain any more. */
  local: boolean | null
  head: number | null
  final: number | null
  /** Age of the newest indexed block. */
  lag_seconds: number | null
  halted: boolean
}

interface Counts {
  pending_deposits: number
  unattributed_deposits: number
  deliveries_pending: number
  deliveries_failing: number
  deliveries_failed: number
  open_incidents: number
  payouts: {pending: number; sweeping: number; swept: number; paying: number}
}

/** Payouts, or transactions of ours, whose next step cannot be taken now. */
interface Waiting {
  what: 'payout' | 'payment' | 'sweep' | 'withdrawal'
  chain: string
  reason: string
  count: number
  since: Date
}

export function addStatusCommand(program: Command): void {
  leaf(
    program,
    'status',
    'Shows how the service is: chains, deposits, payouts, treasuries, webhooks, processes.',
    'sluice status',
  ).action(
    action(async sluice => {
      const chains = await chainStatus(sluice)
      const counts = await count(sluice)
      const waiting = await whatWaits(sluice)
      const treasuries = await treasuriesOf(sluice.db)
      const processes = readProcesses(sluice.home).map(({command: _, ...rest}) => rest)
      const {pid, started_at, api_url} = sluice.service
      return {
        json: {
          service: {pid, started_at, api_url, home: sluice.home},
          chains,
          deposits: {pending: counts.pending_deposits, unattributed: counts.unattributed_deposits},
          payouts: {...counts.payouts, waiting},
          treasuries,
          webhooks: {
            pending: counts.deliveries_pending,
            failing: counts.deliveries_failing,
            failed: counts.deliveries_failed,
          },
          incidents: {open: counts.open_incidents},
          processes,
        },
        text: [
          facts({API: api_url, data: sluice.home, since: moment(started_at)}),
          chainTable(chains),
          facts({
            'pending deposits': counts.pending_deposits,
            'unattributed deposits': counts.unattributed_deposits,
            'payouts under way': payoutText(counts.payouts),
            'webhooks on their way': counts.deliveries_pending,
            'webhooks tried again': counts.deliveries_failing,
            'webhooks given up': counts.deliveries_failed,
            'open incidents': counts.open_incidents && `${counts.open_incidents} (sluice incident list)`,
          }),
          table(
            ['waits', 'chain', 'number', 'for', 'since'],
            waiting.map(row => [row.what, row.chain, row.count, row.reason, moment(row.since)]),
            'No payout waits for anything.',
          ),
          table(
            ['treasury', 'token', 'holds', 'operator', "merchants'"],
            treasuries.map(row => [row.chain, row.token, row.balance, row.operator, row.merchants]),
            'There is no treasury yet.',
          ),
          table(
            ['process', 'state', 'pid', 'since', 'restarts'],
            processes.map(({name, state, pid, started_at, restarts}) => [
              name,
              state,
              pid,
              moment(started_at),
              restarts,
            ]),
            'The processes are not known.',
          ),
        ].join('\n\n'),
      }
    }),
  )
}

async function chainStatus({db, service}: Sluice): Promise<ChainStatus[]> {
  const {rows} = await db.query<Omit<ChainStatus, 'local'>>(
    `select chain, head_height as head, final_height as final,
       greatest(0, round(extract(epoch from clock_timestamp() - head_time)))::int as lag_seconds, halted_at is not null as halted
     from chain.cursor`,
  )
  const known = [...new Set([...Object.keys(service.chains), ...rows.map(row => row.chain)])].sort()
  return known.map(chain => ({
    ...(rows.find(row => row.chain === chain) ?? {chain, head: null, final: null, lag_seconds: null, halted: false}),
    local: service.chains[chain]?.local ?? null,
  }))
}

function chainTable(chains: ChainStatus[]): string {
  const state = ({head, halted, local}: ChainStatus) => {
    if (halted) return 'HALTED (sluice incident list)'
    if (local === null) return 'has no node'
    return head === null ? 'not followed yet' : 'followed'
  }
  return table(
    ['chain', 'node', 'head', 'final', 'lag', 'state'],
    chains.map(row => [
      row.chain,
      row.local === null ? '' : row.local ? 'local' : 'remote',
      row.head,
      row.final,
      row.lag_seconds === null ? '' : `${row.lag_seconds} s`,
      state(row),
    ]),
    'No chain is followed.',
  )
}

async function count({db}: Sluice): Promise<Counts> {
  const {rows} = await db.query<Counts>(
    `select
       (select count(*) from app.deposit where status = 'pending' and credited)::int as pending_deposits,
       (select count(*) from app.deposit where not credited and user_id is not null)::int as unattributed_deposits,
       (select count(*) from app.delivery where status = 'pending' and attempts = 0)::int as deliveries_pending,
       (select count(*) from app.delivery where status = 'pending' and attempts > 0)::int as deliveries_failing,
       (select count(*) from app.delivery d where status = 'failed' and exists (
          select from app.webhook_endpoint w where w.id = d.endpoint_id and w.deleted_at is null))::int as deliveries_failed,
       (select count(*) from app.incident where resolved_at is null)::int as open_incidents,
       (select json_build_object('pending', count(*) filter (where status = 'pending'), 'sweeping', count(*) filter (where status = 'sweeping'),
          'swept', count(*) filter (where status = 'swept'), 'paying', count(*) filter (where status = 'paying'))
        from app.payout where status not in ('completed', 'failed')) as payouts`,
  )
  return rows[0]!
}

function payoutText(payouts: Counts['payouts']): string | number {
  const some = Object.entries(payouts).filter(([, number]) => number > 0)
  return some.map(([status, number]) => `${number} ${status}`).join(', ') || 0
}

async function whatWaits({db}: Sluice): Promise<Waiting[]> {
  const {rows} = await db.query<Waiting>(
    `select what, chain, reason, count(*)::int as count, min(since) as since from (
       select 'payout' as what, chain, waiting_reason as reason, waiting_since as since from app.payout where status not in ('completed', 'failed')
       union all
       select case kind when 'payout' then 'payment' else kind end, chain, waiting_reason, waiting_since from app.spend where status <> 'final'
     ) open where reason is not null group by what, chain, reason order by chain, what, reason`,
  )
  return rows
}
