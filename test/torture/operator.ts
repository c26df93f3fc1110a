// Reads chains again, from any height, while everything goes on. Sometimes it is killed in the middle, and resumes
// later. When all is calm, reading all of them again must change nothing.
import {setTimeout as sleep} from 'node:timers/promises'
import type pg from 'pg'
import type {ChainCode} from '../../chains/registry.ts'
import type {Random} from './random.ts'
import {chainCodes, type Service} from './service.ts'

export class Operator {
  readonly #service: Service
  readonly #random: Random
  readonly counts: Record<string, number> = {}

  constructor(service: Service, random: Random) {
    this.#service = service
    this.#random = random.fork('operator')
  }

  async reindex(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      await sleep(this.#random.between(2000, 6000))
      if (stopped.aborted) return
      const chain = this.#random.pick(chainCodes)
      const share = this.#random.next()
      const killed = this.#random.chance(0.3) ? AbortSignal.timeout(this.#random.between(500, 3000)) : undefined
      const resumed = this.#random.chance(0.7)
      await this.#once(chain, share, killed).then(
        () => this.#count('reindexed'),
        error => this.#count(killed?.aborted ? 'killed' : `refused: ${inShort(error)}`),
      )
      if (!killed?.aborted || !resumed) continue
      await this.#service.sluice('reindex', '--chain', chain, '--resume').then(
        () => this.#count('resumed'),
        error => this.#count(`not resumed: ${inShort(error)}`),
      )
    }
  }

  async #once(chain: ChainCode, share: number, killed?: AbortSignal): Promise<void> {
    const {first, final} = await heights(this.#service, chain)
    const from = first + Math.floor((final - first) * share)
    await this.#service.call(['reindex', '--chain', chain, '--from', String(from)], killed)
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }
}

/** The output of a command, without what differs each time. */
function inShort(error: {stderr?: string; message: string}): string {
  const said = (error.stderr ?? '').split('\n').find(text => text.startsWith('sluice: ')) ?? error.message
  return said
    .replace(/^sluice: /, '')
    .replace(/(0x)?[0-9a-f]{8,}|\d+|\/\S+/g, '…')
    .slice(0, 70)
}

/** Whatever runs the service. */
interface Operated {
  query(sql: string, values?: unknown[]): Promise<Record<string, unknown>[]>
  sluice(...words: string[]): Promise<unknown>
}

/** The first block that was read, and the final one. */
async function heights(service: Operated, chain: ChainCode): Promise<{first: number; final: number}> {
  const [row] = await service.query(
    `select least(final_height, (select min(height) + 1 from chain.block b where b.chain = c.chain)) as first, final_height as final
     from chain.cursor c where chain = $1`,
    [chain],
  )
  return row as {first: number; final: number}
}

const tables = {
  deposits: 'select * from app.deposit order by id',
  'payment requests': 'select * from app.payment_request order by id',
  events: 'select * from app.event order by id',
  payouts: 'select * from app.payout order by id',
  ledger: 'select * from app.ledger_entry order by id',
  balances: 'select * from app.balance_now order by merchant_id, chain, token',
  outgoingPayments: 'select * from app.outgoing_payment order by id',
  incidents: 'select * from app.incident order by id',
}

/** Reads chains again from their first blocks, and compares the database before and after. */
export async function reindexingChangesNothing({
  db,
  service,
  chains = chainCodes,
}: {
  db: pg.Pool
  service: Operated
  chains?: readonly ChainCode[]
}): Promise<string[]> {
  const dump = async () => {
    const parts: Record<string, string> = {}
    for (const [name, sql] of Object.entries(tables)) {
      const {rows} = await db.query<{row: string}>(`select t::text as row from (${sql}) t`)
      parts[name] = rows.map(({row}) => row).join('\n')
    }
    return parts
  }
  const before = await dump()
  const wrong: string[] = []
  for (const chain of chains) {
    const {first} = await heights(service, chain)
    await service
      .sluice('reindex', '--chain', chain, '--from', String(first))
      .catch(error => wrong.push(`${chain} could not be read again: ${error.stderr || error}`))
  }
  const after = await dump()
  for (const name of Object.keys(before)) if (before[name] !== after[name]) wrong.push(`reindexing changed the ${name}`)
  return wrong
}
