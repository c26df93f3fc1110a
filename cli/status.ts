// sluice status: the state of the service, once or until Ctrl-C.
import type {Command} from 'commander'
import {action, leaf} from './command.ts'
import {type Section, screen, wrap} from './fit.ts'
import {inWords} from './incident.ts'
import {NodeHeads} from './node-heads.ts'
import {facts, moment, type Report, table} from './output.ts'
import {type ChainStatus, type Status, statusOf} from './status-facts.ts'
import {stakeTables} from './treasury.ts'
import {watch} from './watch.ts'

export function addStatusCommand(program: Command): void {
  leaf(
    program,
    'status',
    [
      'Shows the state of the service: chains, deposits, payouts, treasuries, jobs, webhooks, the last audit, processes.',
      '',
      "head is the newest block of a chain's node, indexed the newest block that Sluice read. --watch repeats the report every 2 seconds until",
      'Ctrl-C and shows as much as fits the terminal: halted chains and waiting payouts come first.',
    ].join('\n'),
    'sluice status --watch',
  )
    .option('--watch', 'repeat the report every 2 seconds')
    .action(
      action<{watch?: boolean; json?: boolean}>(async (sluice, {watch: again, json = false}) => {
        const nodes = new NodeHeads(sluice.service)
        const make = async () => report(await statusOf(sluice, await nodes.ask()))
        try {
          if (!again) return await make()
          await watch(make, json)
          return undefined
        } finally {
          nodes.close()
        }
      }),
    )
}

function report(status: Status): Report {
  const {service, chains, deposits, payouts, treasuries, queues, webhooks, incidents, processes} = status
  return {
    json: status,
    fitted: size => screen(sections(status, size.columns), size),
    text: [
      facts({API: service.api_url, data: service.home, since: moment(service.started_at)}),
      [chainTable(chains), ...chains.flatMap(remarks), ...notFollowed(status)].join('\n'),
      ...(incidents.open ? [incidents.ways_out.map(inWords).join('\n')] : []),
      facts({
        'pending deposits': deposits.pending,
        'unattributed deposits': deposits.unattributed,
        'deposits held back': deposits.held_back && `${deposits.held_back} (sluice treasury held-back)`,
        'payouts under way': payoutText(payouts),
        'webhooks pending': webhooks.pending,
        'webhooks being retried': webhooks.failing,
        'webhooks given up': webhooks.failed,
        'open incidents': incidents.open && `${incidents.open} (sluice incident list)`,
        'last audit': auditText(status),
      }),
      table(
        ['waits', 'chain', 'number', 'for', 'since', 'because'],
        payouts.waiting.map(row => [row.what, row.chain, row.count, row.reason, moment(row.since), row.detail]),
        'No payout waits for anything.',
      ),
      ...(payouts.failed_sweeps.length
        ? [table(['failed sweeps', ...sweepHeadings], payouts.failed_sweeps.map(sweepRow), '')]
        : []),
      table(
        ['treasury', 'token', 'holds', 'operator', "merchants'", 'gas left'],
        treasuries.map(row => [row.chain, row.token, row.balance, row.operator, row.merchants, daysText(row)]),
        'There is no treasury yet.',
      ),
      ...stakeTables(status),
      table(
        ['job', 'waiting', 'running', 'failing', 'oldest due', 'last error'],
        queues.map(row => [
          row.task,
          row.waiting,
          row.running,
          row.failing,
          row.waiting ? `${row.oldest_due_seconds} s` : '',
          firstLine(row.last_error),
        ]),
        'There are no jobs.',
      ),
      table(
        ['webhook endpoint', 'merchant', 'failing since', 'disabled', 'last error'],
        webhooks.failing_endpoints.map(row => [
          row.id,
          row.merchant,
          moment(row.since),
          row.disabled,
          firstLine(row.last_error),
        ]),
        'No webhook endpoint is failing.',
      ),
      table(
        ['process', 'state', 'pid', 'since', 'restarts'],
        processes.map(row => [
          row.name,
          row.state,
          ...('pid' in row ? [row.pid, moment(row.started_at), row.restarts] : ['', '', '']),
        ]),
        '',
      ),
    ].join('\n\n'),
  }
}

/** What fits the terminal, the most important first: what stands still, what to do about it, what waits, what fails. */
function sections(status: Status, columns: number): Section[] {
  const {chains, deposits, payouts, treasuries, queues, webhooks, incidents, audit, processes} = status
  const below = (name: string, most: number, headings: string[], rows: Parameters<typeof table>[1]): Section => ({
    name,
    most,
    lines: rows.length ? table(headings, rows, '').split('\n') : [],
  })
  const halting = chains
    .toSorted((a, b) => Number(b.halted) - Number(a.halted))
    .flatMap(remarks)
    .concat(notFollowed(status))
    .flatMap(text => wrap(text, columns, 2))
  const toDecide = incidents.ways_out.filter(({halts}) => !halts).flatMap(way => wrap(inWords(way), columns, 2))
  const wrong = audit?.findings.length ? wrap(`Last audit ${auditText(status)}`, columns, 2) : []
  return [
    below(
      'chains',
      8,
      ['chain', 'indexed', 'final', 'lag', 'state'],
      chains.map(row => [row.chain, row.head, row.final, lagText(row), stateOf(row)]),
    ),
    {name: 'lines on chains', most: 6, lines: halting},
    {name: 'lines on incidents', most: 4, lines: toDecide},
    {name: 'lines on the audit', most: 2, lines: wrong},
    {
      name: 'counts',
      most: 2,
      lines: [
        `Payouts under way: ${payoutText(payouts)}; deposits: ${deposits.pending} pending, ${deposits.unattributed} unattributed`,
        `Webhooks: ${webhooks.pending} pending, ${webhooks.failing} being retried, ${webhooks.failed} given up; open incidents: ${incidents.open}`,
      ],
    },
    below(
      'waits',
      6,
      ['waits', 'chain', 'number', 'for', 'since'],
      payouts.waiting.map(row => [row.what, row.chain, row.count, row.reason, moment(row.since)]),
    ),
    below('failed sweeps', 3, ['failed sweeps', ...sweepHeadings], payouts.failed_sweeps.map(sweepRow)),
    below(
      'processes',
      4,
      ['process', 'state', 'restarts'],
      processes
        .filter(({state}) => state !== 'running')
        .map(row => [row.name, row.state, 'restarts' in row ? row.restarts : '']),
    ),
    below(
      'endpoints',
      3,
      ['endpoint of', 'failing since', 'last error'],
      webhooks.failing_endpoints.map(row => [row.merchant, moment(row.since), firstLine(row.last_error)]),
    ),
    below(
      'jobs',
      3,
      ['job', 'failing', 'last error'],
      queues.filter(({failing}) => failing).map(row => [row.task, row.failing, firstLine(row.last_error)]),
    ),
    below(
      'treasuries',
      12,
      ['treasury', 'token', 'holds', 'gas left'],
      treasuries.map(row => [row.chain, row.token, row.balance, daysText(row)]),
    ),
  ]
}

function chainTable(chains: ChainStatus[]): string {
  return table(
    ['chain', 'node', 'head', 'indexed', 'final', 'lag', 'last reorganisation', 'state'],
    chains.map(row => [
      row.chain,
      row.local === null ? '' : row.local ? 'local' : 'remote',
      row.node_head ?? (row.local === null ? '' : 'no response'),
      row.head,
      row.final,
      lagText(row),
      row.last_reorg_at && `${row.last_reorg_depth} deep, ${moment(row.last_reorg_at)}`,
      stateOf(row),
    ]),
    'No chain is followed.',
  )
}

function lagText({lag_blocks, lag_seconds}: ChainStatus): string {
  if (lag_seconds === null) return ''
  return lag_blocks === null
    ? `${lag_seconds} s`
    : `${lag_blocks} ${lag_blocks === 1 ? 'block' : 'blocks'}, ${lag_seconds} s`
}

/** What does not fit into a column. */
function remarks({chain, standstill, accepted_gap: gap, unproven_copy: unproven}: ChainStatus): string[] {
  const missed = gap && (gap.missing_from === null ? 'below' : `${gap.missing_from} to ${gap.follow_from - 1}`)
  return [
    ...(standstill ? [`${chain} stands still since ${moment(standstill.since)}: ${reasonText(standstill)}`] : []),
    ...(gap
      ? [
          `${chain} is followed from block ${gap.follow_from} on; what was paid in blocks ${missed} is not seen ` +
            `(accepted ${moment(gap.accepted_at)} by ${gap.accepted_by})`,
        ]
      : []),
    ...(unproven ? [`${chain}: custody signs nothing new since ${moment(unproven.since)}: ${unproven.message}`] : []),
  ]
}

function notFollowed({not_followed: missing}: Status): string[] {
  return missing.map(
    ({chain, merchants}) =>
      `${chain}: ${merchants === 1 ? 'a merchant has' : `${merchants} merchants have`} this chain, and no process follows it: what is paid there is not seen. ` +
      `Name its node, or run sluice merchant disable-chain --merchant MERCHANT --chain ${chain}`,
  )
}

function reasonText({message, way_out}: NonNullable<ChainStatus['standstill']>): string {
  return way_out === null ? message : `${message}: ${way_out}`
}

function stateOf({head, halted, local, reindexing, standstill}: ChainStatus): string {
  if (halted) return 'HALTED'
  const again = reindexing.map(({from, to, next}) => `reads ${from} to ${to} again (at ${next})`)
  const followed = standstill ? 'STANDS STILL' : head === null ? 'not followed yet' : 'followed'
  const state = local === null ? 'has no node' : followed
  return [state, ...again].join(', ')
}

function payoutText({pending, sweeping, swept, paying}: Status['payouts']): string | number {
  const some = Object.entries({pending, sweeping, swept, paying}).filter(([, number]) => number > 0)
  return some.map(([status, number]) => `${number} ${status}`).join(', ') || 0
}

const sweepHeadings = ['token', 'addresses', 'hold', 'tried again', 'why']

function sweepRow(row: Status['payouts']['failed_sweeps'][number]) {
  return [row.chain, row.token, row.addresses, row.amount, moment(row.retry_at), firstLine(row.failure)]
}

function auditText({audit}: Status): string {
  if (!audit) return 'never'
  if (!audit.finished_at) return `since ${moment(audit.started_at)}, not finished`
  const wrong = audit.findings.map(({name, count}) => `${name} (${count})`).join(', ')
  return `${moment(audit.finished_at)}: ${wrong ? `WRONG: ${wrong}` : 'nothing is wrong'}${audit.error ? `; not compared: ${audit.error}` : ''}`
}

function daysText({gas_left_days: days}: Status['treasuries'][number]): string {
  if (days === null) return ''
  return days > 3650 ? 'over 10 years' : `${days < 10 ? days.toFixed(1) : Math.round(days)} days`
}

function firstLine(text: string | null): string {
  return text?.split('\n', 1)[0]?.slice(0, 80) ?? ''
}
