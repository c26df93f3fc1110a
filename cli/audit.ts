// sluice audit: whether everything that must always hold, holds: in the database, and between the ledger and the chains.
import type {Command} from 'commander'
import type pg from 'pg'
import type {Hex} from 'viem'
import {type Chain, type ChainCode, findChain} from '../chains/registry.ts'
import {bitcoinSettings} from '../service/settings.ts'
import {checks} from './audit-checks.ts'
import {action, leaf, type Sluice, settingsOf} from './command.ts'
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

async function audit(sluice: Sluice): Promise<Result[]> {
  const {db} = sluice
  await db.query('begin isolation level repeatable read read only')
  const results: Result[] = []
  for (const {name, claim, sql} of checks) results.push(result(name, claim, (await db.query(sql)).rows))
  results.push(await hashes(db))
  const {rows: cursors} = await db.query<Cursor>(
    'select chain, final_height from chain.cursor where final_height is not null order by chain',
  )
  const comparisons = []
  for (const cursor of cursors) comparisons.push(await comparison(sluice, cursor))
  await db.query('commit')

  for (const {name, claim, differences} of comparisons)
    results.push(
      await differences().then(
        found => result(name, claim, found),
        error => result(name, claim, [error.message]),
      ),
    )
  return results
}

interface Cursor {
  chain: ChainCode
  final_height: number
}

interface Comparison {
  name: string
  claim: string
  differences(): Promise<unknown[]>
}

/** Reads what the ledger has now; comparing it with the chain is for later. */
async function comparison({db, service}: Sluice, {chain, final_height: height}: Cursor): Promise<Comparison> {
  const name = `${chain} on chain`
  const source = service.chains[chain]
  if (!source)
    return {
      name,
      claim: 'the chain holds what the ledger says',
      differences: async () => ['the service has no node for it'],
    }
  // The modules take longer to load than most commands to run.
  if (findChain(chain)?.family === 'bitcoin') {
    const {differences, outputsOf} = await import('./audit-outputs.ts')
    const ledger = await outputsOf(db, chain)
    const claim = `the unspent outputs of addresses and treasury are those of the ledger, at block ${height}`
    return {
      name,
      claim,
      differences: async () => await differences(bitcoinSettings(settingsOf(service, chain)), height, ledger),
    }
  }
  const {differences, holdingsOf} = await import('./audit-chain.ts')
  const holdings = await holdingsOf(db, chain)
  const claim = `addresses and treasury hold what the ledger says, at block ${height}`
  return {name, claim, differences: () => differences(source, height, holdings)}
}

function result(name: string, claim: string, found: unknown[]): Result {
  return {name, claim, right: found.length === 0, count: found.length, found: found.slice(0, SHOWN)}
}

/** The id of a transaction is the hash of its bytes. */
async function hashes(db: pg.Client): Promise<Result> {
  const {keccak256} = await import('viem')
  const {parseTransaction} = await import('../service/bitcoin/block.ts')
  const txidOf: Record<Chain['family'], (raw: string) => string> = {
    evm: raw => keccak256(raw as Hex),
    bitcoin: raw => parseTransaction(Buffer.from(raw, 'hex')).txid,
  }
  const wrong: string[] = []
  for (let last = {chain: '', txid: ''}; ; ) {
    const {rows} = await db.query<{chain: string; txid: string; raw: string}>(
      'select chain, txid, raw from app.outbound_tx where (chain, txid) > ($1, $2) order by chain, txid limit $3',
      [last.chain, last.txid, PAGE],
    )
    if (!rows.length) break
    for (const {chain, txid, raw} of rows)
      if (!isRight(() => txidOf[findChain(chain)!.family](raw) === txid)) wrong.push(`${chain}:${txid}`)
    last = rows.at(-1)!
  }
  return result('bytes', 'the hash of each stored transaction is its txid', wrong)
}

/** Bytes that cannot be read are wrong, too. */
function isRight(check: () => boolean): boolean {
  try {
    return check()
  } catch {
    return false
  }
}
