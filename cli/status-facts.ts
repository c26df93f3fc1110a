// What sluice status shows, from the database. Each query is cheap on a large database.
import type pg from 'pg'
import {readProcesses} from '../base/home.ts'
import type {Sluice} from './command.ts'
import {waysOut} from './incident.ts'
import {stakesOf, treasuriesOf} from './treasury.ts'
import {chainsOfMerchants, unfollowed} from './unfollowed.ts'

/** A range of blocks that is being read again. */
interface Reindex {
  from: number
  to: number
  next: number
}

/** Why a chain is not being read now. */
interface Standstill {
  /** For programs: the kind of the incident that halts the chain, servers_contradict, or why its indexer waits. */
  reason: string
  message: string
  since: string
  /** What to do about it; null if the message says it. */
  way_out: string | null
}

export interface ChainStatus {
  chain: string
  /** Whether the node is local; null if the service no longer has a node for the chain. */
  local: boolean | null
  /** The newest block that the node has; null if it does not respond. */
  node_head: number | null
  /** The newest indexed block. */
  head: number | null
  final: number | null
  /** How many blocks the node is ahead; null if one of the two heights is not known. */
  lag_blocks: number | null
  /** Age of the newest indexed block. */
  lag_seconds: number | null
  last_reorg_at: Date | null
  last_reorg_depth: number | null
  halted: boolean
  standstill: Standstill | null
  /**
   * The blocks that an operator accepted to miss: from `missing_from` (if known) up to, not including, `follow_from`.
   */
  accepted_gap: {missing_from: number | null; follow_from: number; accepted_by: string; accepted_at: string} | null
  reindexing: Reindex[]
  /** Custody's journal may lack entries of the chain, so it signs nothing new there yet. */
  unproven_copy: {since: string; message: string} | null
}

/** Payouts, or outgoing payments, that wait. */
interface Waiting {
  /** A payout, the payment of one (payment), or another kind of outgoing payment. */
  what: string
  chain: string
  reason: string
  count: number
  /** Of the one that has waited longest. */
  since: Date
  detail: string | null
}

/** Addresses of a token that could not be swept, and are not being swept. */
interface FailedSweeps {
  chain: string
  token: string
  /** How many addresses. */
  addresses: number
  /** What they hold. */
  amount: string
  /** Why the newest one failed. */
  failure: string
  /** When the first of them is tried again. */
  retry_at: Date
}

/** The jobs of one task. */
interface Queue {
  task: string
  /** Due, and not running. */
  waiting: number
  running: number
  /** Failed before, and to be retried. */
  failing: number
  /** How long the oldest waiting job has been due. */
  oldest_due_seconds: number
  last_error: string | null
}

/** A webhook endpoint whose last attempt failed, or that was disabled because its deliveries failed. */
interface FailingEndpoint {
  merchant: string
  id: string
  since: Date
  disabled: 'gone' | 'failing' | null
  last_error: string | null
}

interface LastAudit {
  started_at: Date
  /** Null while it runs. */
  finished_at: Date | null
  /** What could not be checked. */
  error: string | null
  /** What is wrong. */
  findings: {name: string; count: number}[]
}

interface Counts {
  pending_deposits: number
  unattributed_deposits: number
  held_back_deposits: number
  deliveries_pending: number
  deliveries_failing: number
  deliveries_failed: number
  open_incidents: number
  payouts: {pending: number; sweeping: number; swept: number; paying: number}
}

export type Status = Awaited<ReturnType<typeof statusOf>>

export async function statusOf(sluice: Sluice, nodeHeads: Map<string, number | null>) {
  const {db, service, home} = sluice
  const counts = await count(db)
  const {pid, started_at, api_url} = service
  return {
    service: {pid, started_at, api_url, home},
    chains: await chainStatus(db, service.chains, nodeHeads),
    /** Chains that merchants may use, and that no process follows. */
    not_followed: await notFollowed(sluice),
    deposits: {
      pending: counts.pending_deposits,
      unattributed: counts.unattributed_deposits,
      held_back: counts.held_back_deposits,
    },
    payouts: {...counts.payouts, waiting: await whatWaits(db), failed_sweeps: await failedSweeps(db)},
    treasuries: await treasuriesWithGas(db),
    ...(await stakesOf(db)),
    queues: await queues(db),
    webhooks: {
      pending: counts.deliveries_pending,
      failing: counts.deliveries_failing,
      failed: counts.deliveries_failed,
      failing_endpoints: await failingEndpoints(db),
    },
    incidents: {open: counts.open_incidents, ways_out: await waysOut(db)},
    audit: await lastAudit(db),
    processes: await processes(sluice),
  }
}

/**
 * As npm start knows them. If it did not start them, such as in containers: those that this database should have, by
 * the connection, or for indexers the lock of the chain, that each holds as long as it runs.
 */
async function processes({db, home}: Sluice) {
  const started = readProcesses(home)
  if (started.length)
    return started.map(({name, state, pid, started_at, restarts}) => ({name, state, pid, started_at, restarts}))
  const {rows} = await db.query<{name: string; is_connected: boolean}>(
    `select p.name, exists (select from pg_stat_activity a where a.datname = current_database() and a.application_name = p.connection) as is_connected
     from (values ('custody', 'sluice-custody-watch'), ('jobs', 'sluice-jobs-liveness'), ('api', 'sluice-api-keys'),
         ('dashboard-auth', 'sluice-auth-held'), ('dashboard-pages', 'sluice-dashboard-held')) p (name, connection)
     union all
     select 'indexer-' || lower(c.chain), exists (select from pg_locks l where l.locktype = 'advisory' and l.granted
         and l.database = (select oid from pg_database where datname = current_database())
         and (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('sluice.indexer.' || c.chain, 0))
     from chain.cursor c`,
  )
  return rows.map(({name, is_connected}) => ({name, state: is_connected ? 'running' : 'not connected'}) as const)
}

async function notFollowed(sluice: Sluice): Promise<{chain: string; merchants: number}[]> {
  const used = await chainsOfMerchants(sluice.db)
  const missing = await unfollowed(
    sluice,
    used.map(({chain}) => chain),
  )
  return used.filter(({chain}) => missing.includes(chain))
}

async function chainStatus(
  db: pg.Client,
  nodes: Sluice['service']['chains'],
  nodeHeads: Map<string, number | null>,
): Promise<ChainStatus[]> {
  const {rows} = await db.query<Omit<ChainStatus, 'local' | 'node_head' | 'lag_blocks' | 'reindexing'>>(
    `select chain, c.head_height as head, c.final_height as final,
       greatest(0, round(extract(epoch from clock_timestamp() - c.head_time)))::int as lag_seconds,
       c.last_reorg_at, c.last_reorg_depth, c.halted_at is not null as halted,
       (select json_build_object('reason', w.reason, 'message', w.message, 'since', app.iso(w.since), 'way_out', w.way_out)
        from app.standstill w where w.chain = coalesce(c.chain, g.chain)) as standstill,
       (select json_build_object('missing_from', a.missing_from, 'follow_from', a.follow_from, 'accepted_by', a.accepted_by,
          'accepted_at', app.iso(a.accepted_at)) from app.accepted_gap a where a.chain = coalesce(c.chain, g.chain)) as accepted_gap,
       (select json_build_object('since', app.iso(u.noted_at), 'message', custody.why_unproven(u)) from custody.unproven_copy u
        where u.chain = coalesce(c.chain, g.chain) and u.proven_at is null) as unproven_copy
     from chain.cursor c full join chain.configured g using (chain)`,
  )
  const unknown = {
    head: null,
    final: null,
    lag_seconds: null,
    last_reorg_at: null,
    last_reorg_depth: null,
    halted: false,
    standstill: null,
    accepted_gap: null,
    unproven_copy: null,
  }
  const reindexing = await runningReindexes(db)
  return [...new Set([...Object.keys(nodes), ...rows.map(row => row.chain)])].sort().map(chain => {
    const row = rows.find(each => each.chain === chain) ?? unknown
    const nodeHead = nodeHeads.get(chain) ?? null
    return {
      ...row,
      chain,
      local: nodes[chain]?.local ?? null,
      node_head: nodeHead,
      lag_blocks: nodeHead === null || row.head === null ? null : Math.max(0, nodeHead - row.head),
      reindexing: reindexing.filter(each => each.chain === chain).map(({chain: _, ...range}) => range),
    }
  })
}

async function runningReindexes(db: pg.Client): Promise<(Reindex & {chain: string})[]> {
  const {rows} = await db.query<Reindex & {chain: string}>(
    `select chain, from_height as "from", to_height as "to", next_height as next from app.reindex where finished_at is null order by id`,
  )
  return rows
}

async function treasuriesWithGas(db: pg.Client) {
  const {rows} = await db.query<{chain: string; token: string; days: number | null}>(
    'select chain, native_token as token, app.gas_left_days(chain) as days from app.chain',
  )
  const daysOf = new Map(rows.map(({chain, token, days}) => [`${chain} ${token}`, days]))
  return (await treasuriesOf(db)).map(each => ({
    ...each,
    /** Null for tokens, and if no fee was paid lately. */
    gas_left_days: daysOf.get(`${each.chain} ${each.token}`) ?? null,
  }))
}

async function queues(db: pg.Client): Promise<Queue[]> {
  const {rows} = await db.query<Queue>(
    `with job as materialized (
       select t.identifier as task, j.run_at, j.attempts, j.last_error, j.locked_at is not null as running,
         j.locked_at is null and j.is_available and j.run_at <= clock_timestamp() as waiting
       from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id
     )
     select task, count(*) filter (where waiting)::int as waiting, count(*) filter (where running)::int as running,
       count(*) filter (where attempts > 0 and last_error is not null and not running)::int as failing,
       coalesce(round(extract(epoch from clock_timestamp() - min(run_at) filter (where waiting))), 0)::int as oldest_due_seconds,
       left((array_agg(last_error order by run_at desc) filter (where last_error is not null))[1], 200) as last_error
     from job group by task order by task`,
  )
  return rows
}

async function failingEndpoints(db: pg.Client): Promise<FailingEndpoint[]> {
  const {rows} = await db.query<FailingEndpoint>(
    `select m.name as merchant, app.public_id('whe', w.id) as id, coalesce(w.failing_since, w.disabled_at) as since,
       case when w.disabled_reason in ('gone', 'failing') then w.disabled_reason end as disabled, left(last.error, 200) as last_error
     from app.webhook_endpoint w join app.merchant m on m.id = w.merchant_id
     left join lateral (
       select a.error from (select d.id from app.delivery d where d.endpoint_id = w.id and d.attempts > 0 order by d.id desc limit 20) d
       join app.delivery_attempt a on a.delivery_id = d.id where a.error is not null order by a.id desc limit 1
     ) last on true
     where w.deleted_at is null and (w.failing_since is not null or w.disabled_reason in ('gone', 'failing')) order by since`,
  )
  return rows
}

async function lastAudit(db: pg.Client): Promise<LastAudit | null> {
  const {rows} = await db.query<LastAudit>(
    `select r.started_at, r.finished_at, r.error, coalesce((
       select json_agg(json_build_object('name', f.name, 'count', f.count) order by f.name) from app.audit_finding f
       where f.run_id = r.id and f.count > 0), '[]') as findings
     from app.audit_run r order by r.id desc limit 1`,
  )
  return rows[0] ?? null
}

async function count(db: pg.Client): Promise<Counts> {
  const {rows} = await db.query<Counts>(
    `select
       (select count(*) from app.deposit where status = 'pending' and credited)::int as pending_deposits,
       (select count(*) from app.deposit d where not credited and merchant_id is not null and not app.is_dismissed(d))::int as unattributed_deposits,
       (select count(*) from app.deposit where held_back and settlement_id is null)::int as held_back_deposits,
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

async function failedSweeps(db: pg.Client): Promise<FailedSweeps[]> {
  const {rows} = await db.query<FailedSweeps>(
    `select chain, token, count(*)::int as addresses, app.decimal(sum(u.amount), a.decimals) as amount,
       (array_agg(u.failure order by u.retry_at desc))[1] as failure, min(u.retry_at) as retry_at
     from app.unswept_address u join app.asset a using (chain, token) group by chain, token, a.decimals order by chain, token`,
  )
  return rows
}

async function whatWaits(db: pg.Client): Promise<Waiting[]> {
  const {rows} = await db.query<Waiting>(
    `select what, chain, reason, count(*)::int as count, min(since) as since, (array_agg(detail order by since))[1] as detail from (
       select 'payout' as what, p.chain, w.* from app.payout p cross join lateral app.why_payout_waits(p) w where p.status not in ('completed', 'failed')
       union all
       select case s.kind when 'payout' then 'payment' else s.kind end, s.chain, w.* from app.outgoing_payment s
       cross join lateral app.why_outgoing_waits(s) w where s.status <> 'final' and app.may_wait(s)
     ) open where reason is not null group by what, chain, reason order by chain, what, reason`,
  )
  return rows
}
