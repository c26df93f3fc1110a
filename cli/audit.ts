// sluice audit: whether everything that must always hold, holds: in the database, and between the ledger and the chains.
import type {Command} from 'commander'
import type pg from 'pg'
import {checks} from './audit-checks.ts'
import {action, leaf, type Sluice} from './command.ts'
import {table} from './output.ts'

const SHOWN = 10
const PAGE = 5000

interface Result {
  name: string
  claim: string
  right: boolean
  /** How many things break it, and the first of them. */
  count: number
  found: unknown[]
}

export function addAuditCommand(program: Command): void {
  leaf(
    program,
    'audit',
    [
      'Checks what must always hold, and compares the ledger with the chains.',
      '',
      'Changes nothing; the exit code is 1 if anything is wrong. Reads everything: on a large database it takes a while.',
    ].join('\n'),
    'sluice audit',
  ).action(
    action(async sluice => {
      const results = await audit(sluice)
      const right = results.every(result => result.right)
      if (!right) process.exitCode = 1
      const lines = table(
        ['', 'what', 'must hold'],
        results.map(({name, right, claim}) => [right ? 'right' : 'WRONG', name, claim]),
        '',
      )
      const details = results
        .filter(result => !result.right)
        .map(
          ({name, count, found}) =>
            `${name}: ${count} found\n${found.map(row => `  ${JSON.stringify(row)}`).join('\n')}`,
        )
      return {json: {right, checks: results}, text: [lines, ...details].join('\n\n')}
    }),
  )
}

async function audit({db, service}: Sluice): Promise<Result[]> {
  const chain = await import('./audit-chain.ts') // takes longer to load than most commands to run
  await db.query('begin isolation level repeatable read read only')
  const results: Result[] = []
  for (const {name, claim, sql} of checks) results.push(result(name, claim, (await db.query(sql)).rows))
  results.push(await hashes(db))
  const {rows: cursors} = await db.query<{chain: string; final_height: number}>(
    'select chain, final_height from chain.cursor where final_height is not null order by chain',
  )
  const asked = []
  for (const cursor of cursors) asked.push({...cursor, holdings: await chain.holdingsOf(db, cursor.chain)})
  await db.query('commit')

  for (const {chain: code, final_height, holdings} of asked) {
    const name = `${code} on chain`
    const claim = `addresses and treasury hold what the ledger says, at block ${final_height}`
    const node = service.chains[code]
    if (!node) results.push(result(name, claim, ['the service has no node for it']))
    else
      results.push(
        await chain.differences(node, final_height, holdings).then(
          found => result(name, claim, found),
          error => result(name, claim, [error.message]),
        ),
      )
  }
  return results
}

function result(name: string, claim: string, found: unknown[]): Result {
  return {name, claim, right: found.length === 0, count: found.length, found: found.slice(0, SHOWN)}
}

/** The id of a transaction is the hash of its bytes. */
async function hashes(db: pg.Client): Promise<Result> {
  const {keccak256} = await import('viem')
  const wrong: string[] = []
  for (let last = {chain: '', txid: ''}; ; ) {
    const {rows} = await db.query<{chain: string; txid: string; raw: `0x${string}`}>(
      'select chain, txid, raw from app.outbound_tx where (chain, txid) > ($1, $2) order by chain, txid limit $3',
      [last.chain, last.txid, PAGE],
    )
    if (!rows.length) break
    wrong.push(...rows.filter(({txid, raw}) => keccak256(raw) !== txid).map(({chain, txid}) => `${chain}:${txid}`))
    last = rows.at(-1)!
  }
  return result('bytes', 'the hash of each stored transaction is its txid', wrong)
}
