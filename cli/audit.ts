// sluice audit: checks the invariants of the database, and compares the ledger with the chains. Promises: exit code 0
// if all is right, 1 if anything is wrong, 3 if nothing is wrong but something could not be compared.
import type {Command} from 'commander'
import type pg from 'pg'
import type {ChainCode} from '../chains/registry.ts'
import {readTokens} from '../db/client/tokens.ts'
import type {Audit, Compared, Nodes, OnCompared} from '../jobs/audit/audit.ts'
import {action, leaf, type Sluice, settingsOf} from './command.ts'
import {moment, type Report, table} from './output.ts'
import {Progress} from './progress.ts'

const notComparedCode = 3

/** What takes longer than normal. Nothing is wrong with it. */
interface Stuck {
  what: string
  id: string
  chain: string | null
  state: string
  since: Date
}

interface Unattributed {
  chain: string
  token: string
  reason: string
  count: number
  /** In whole coins; null where the token is not supported. */
  amount: string | null
  amount_base_units: string
}

export function addAuditCommand(program: Command): void {
  leaf(
    program,
    'audit',
    [
      'Checks every invariant of the database, and compares the ledger with the chains.',
      '',
      'The exit code is 1 if anything is wrong. It is 3 if nothing is wrong, but a chain could not be asked. An incident opens for each check that',
      'finds something, and closes when the same check finds nothing. The audit records its result and changes nothing else. It reads everything,',
      'and asks the nodes about every address: on a large database it takes a while.',
    ].join('\n'),
    'sluice audit',
  ).action(
    action<{json?: boolean}>(async (sluice, {json = false}) => {
      const {audit} = await import('../jobs/audit/audit.ts') // takes longer to load than most commands to run
      const done = await audit(sluice.db, await nodesOf(sluice), json ? () => {} : bars())
      const wrong = done.findings.some(({count}) => count > 0)
      process.exitCode = wrong ? 1 : done.notCompared.length ? notComparedCode : 0
      return report(done, {
        stuck: await stuck(sluice.db),
        lookAlikes: await lookAlikes(sluice.db),
        unattributed: await unattributed(sluice.db),
      })
    }),
  )
}

async function nodesOf({db, service}: Sluice): Promise<Nodes> {
  const codes = Object.keys(service.chains) as ChainCode[]
  const nodes = new Map(codes.map(code => [code, settingsOf(service, code)]))
  await readTokens(db, nodes)
  return nodes
}

/** A progress bar for each chain that has more addresses than are compared at once. */
function bars(): OnCompared {
  const drawn = new Map<string, Progress>()
  return (chain, done, total) => {
    if (done > 0 && done < total && !drawn.has(chain))
      drawn.set(chain, new Progress({what: `comparing ${chain}`, unit: 'addresses', total, doneBefore: done}))
    const bar = drawn.get(chain)
    bar?.at(done)
    if (done === total) bar?.end()
  }
}

/** The oldest of them, and how many there are. */
async function stuck(db: pg.Client): Promise<{rows: Stuck[]; total: number}> {
  const {rows} = await db.query<Stuck & {total: number}>(
    'select what, id, chain, state, since, count(*) over ()::int as total from app.stuck order by since limit 100',
  )
  return {rows: rows.map(({total: _, ...row}) => row), total: rows[0]?.total ?? 0}
}

/** References of a merchant that look the same. */
interface LookAlike {
  what: string
  merchant: string
  reference: string
  ids: string[]
}

async function lookAlikes(db: pg.Client): Promise<LookAlike[]> {
  const sql = 'select what, merchant, reference, ids from app.look_alike order by what, merchant, reference'
  return (await db.query<LookAlike>(sql)).rows
}

async function unattributed(db: pg.Client): Promise<Unattributed[]> {
  const {rows} = await db.query<Unattributed>(
    `select chain, token, reason, count(*)::int as count, sum(amount)::text as amount, sum(amount_base_units)::text as amount_base_units
     from analytics.unattributed where status <> 'reorged' and decision is distinct from 'credit' and not dismissed
     group by chain, token, reason order by chain, token, reason`,
  )
  return rows
}

/** What is shown below the checks, and is never a finding. */
interface Shown {
  stuck: {rows: Stuck[]; total: number}
  lookAlikes: LookAlike[]
  unattributed: Unattributed[]
}

function report({findings, notCompared, compared}: Audit, {stuck, lookAlikes, unattributed}: Shown): Report {
  const wrong = findings.filter(({count}) => count > 0)
  const checks = table(
    ['', 'check', 'must hold'],
    [
      ...findings.map(({name, claim, count}) => [count ? 'WRONG' : 'right', name, claim]),
      ...notCompared.map(({name, claim}) => ['not compared', name, claim]),
    ],
    '',
  )
  const details = wrong.map(
    ({name, count, found}) => `${name}: ${count} found\n${found.map(row => `  ${JSON.stringify(row)}`).join('\n')}`,
  )
  const sections = [checks, ...details, ...notCompared.map(({name, why}) => `${name}: not compared, ${why}`)]
  if (compared.length) sections.push(comparisons(compared))
  if (stuck.total)
    sections.push(
      table(
        ['not wrong, but slow', 'id', 'chain', 'state', 'since'],
        stuck.rows.map(row => [row.what, row.id, row.chain, row.state, moment(row.since)]),
        '',
      ),
    )
  if (stuck.total > stuck.rows.length) sections.push(`The oldest ${stuck.rows.length} of ${stuck.total}.`)
  if (lookAlikes.length)
    sections.push(
      table(
        ['not wrong, but looks the same', 'merchant', 'reference', 'who has it'],
        lookAlikes.map(row => [row.what, row.merchant, row.reference, row.ids.join(', ')]),
        '',
      ),
    )
  sections.push(
    table(
      ['unattributed', 'token', 'reason', 'number', 'amount', 'base units'],
      unattributed.map(row => [row.chain, row.token, row.reason, row.count, row.amount, row.amount_base_units]),
      'Nothing is unattributed.',
    ),
  )
  return {
    json: {
      right: !wrong.length,
      complete: !notCompared.length,
      checks: [
        ...findings.map(finding => ({...finding, right: finding.count === 0})),
        ...notCompared.map(each => ({...each, right: null})),
      ],
      compared: compared.map(({chain, since, compared}) => ({chain, since, addresses: compared})),
      stuck: stuck.rows,
      stuck_total: stuck.total,
      look_alikes: lookAlikes,
      unattributed,
    },
    text: sections.join('\n\n'),
  }
}

function comparisons(compared: Compared[]): string {
  return table(
    ['compared with the chain', 'addresses in this pass', 'oldest comparison'],
    compared.map(({chain, compared, since}) => [chain, compared, since ? moment(since) : 'not all are compared yet']),
    '',
  )
}
