// What a chain of outputs holds, compared with the ledger: each output of ours that the source has unspent, at or below the final block that
// the ledger is of, is one that the ledger has unspent, and the other way round. Promises: asks the source and changes nothing; one that does
// not answer is a RetryableError, never a match.
import type pg from 'pg'
import {pino} from 'pino'
import {z} from 'zod'
import {Electrum, ElectrumError} from '../../service/bitcoin/electrum.ts'
import {Bitcoind} from '../../service/bitcoin/rpc.ts'
import {scripthashOf, scriptOfAddress} from '../../service/bitcoin/script.ts'
import {RetryableError} from '../../service/errors.ts'
import type {BitcoinSettings} from '../../service/settings.ts'

const scanTimeoutMs = 600_000
const sats = 1e8

/** What the ledger has, at one moment. */
interface Ledger {
  height: number
  addresses: string[]
  /** Unspent and final, by outpoint. isLeaving: a transaction of ours spends it, or a block that is not final did. */
  outputs: Map<string, Output & {isLeaving: boolean}>
}

interface Output {
  address: string
  amount: bigint
}

interface Unspent extends Output {
  outpoint: string
  height: number
}

interface Difference {
  outpoint: string
  address: string
  ledger: string | null
  chain: string | null
}

/** What the source has otherwise, by outpoint. */
export async function outputsThatDiffer(db: pg.Client, settings: BitcoinSettings): Promise<Map<string, Difference>> {
  const {height: finalHeight, addresses, outputs} = await ledgerOf(db, settings.chain.code)
  const ask = settings.source === 'electrum' ? askElectrum : askNode
  const unspent = await ask(settings, addresses).catch(error => {
    throw new RetryableError(`the source cannot be asked: ${(error as Error).message}`, {cause: error})
  })
  const found = new Map<string, Difference>()
  for (const {outpoint, address, amount, height} of unspent) {
    const ours = outputs.get(outpoint)
    outputs.delete(outpoint)
    const isFinal = height > 0 && height <= finalHeight
    if (ours ? ours.amount !== amount || !isFinal : isFinal)
      found.set(outpoint, {outpoint, address, ledger: ours ? String(ours.amount) : null, chain: String(amount)})
  }
  for (const [outpoint, {address, amount, isLeaving}] of outputs)
    if (!isLeaving) found.set(outpoint, {outpoint, address, ledger: String(amount), chain: null})
  return found
}

type Row = {address: string; height: number} & (
  | {outpoint: string; amount: string; isLeaving: boolean}
  | {outpoint: null; amount: null; isLeaving: null}
)

// One statement: the height is that of the outputs.
async function ledgerOf(db: pg.Client, chain: string): Promise<Ledger> {
  const {rows} = await db.query<Row>(
    `select o.address, o.outpoint, o.amount, o.is_leaving as "isLeaving", c.final_height as height
     from chain.cursor c cross join app.audit_outputs(c.chain) o where c.chain = $1`,
    [chain],
  )
  const ledger: Ledger = {height: rows[0]?.height ?? 0, addresses: [], outputs: new Map()}
  for (const {address, outpoint, amount, isLeaving} of rows)
    if (outpoint === null) ledger.addresses.push(address)
    else ledger.outputs.set(outpoint, {address, amount: BigInt(amount), isLeaving})
  return ledger
}

const Listed = z.array(
  z.object({tx_hash: z.string(), tx_pos: z.int(), height: z.int(), value: z.int().transform(BigInt)}),
)

async function askElectrum(
  {chain, network, electrumUrls, electrumCa}: BitcoinSettings,
  addresses: string[],
): Promise<Unspent[]> {
  const format = chain.networks[network]
  const server = new Electrum({
    urls: electrumUrls,
    genesis: format.genesis,
    log: pino({level: 'silent'}),
    ...(electrumCa !== undefined && {ca: electrumCa}),
  })
  try {
    const answers = await server.batch(
      addresses.map(address => ({
        method: 'blockchain.scripthash.listunspent',
        params: [scripthashOf(scriptOfAddress(address, format))],
      })),
      Listed,
    )
    return answers.flatMap((answer, n) => {
      if (answer instanceof ElectrumError) throw answer
      return answer.map(({tx_hash, tx_pos, height, value}) => ({
        outpoint: `${tx_hash}:${tx_pos}`,
        address: addresses[n]!,
        amount: value,
        height,
      }))
    })
  } finally {
    server.close()
  }
}

const Scanned = z.object({
  success: z.literal(true),
  unspents: z.array(z.object({txid: z.string(), vout: z.int(), desc: z.string(), amount: z.number(), height: z.int()})),
})

async function askNode({rpcUrl}: BitcoinSettings, addresses: string[]): Promise<Unspent[]> {
  const node = new Bitcoind(rpcUrl!, {timeoutMs: scanTimeoutMs})
  try {
    const {unspents} = await node.call('scantxoutset', ['start', addresses.map(address => `addr(${address})`)], Scanned)
    return unspents.map(({txid, vout, desc, amount, height}) => ({
      outpoint: `${txid}:${vout}`,
      address: desc.match(/^addr\((\w+)\)/)?.[1] ?? desc,
      amount: BigInt(Math.round(amount * sats)),
      height,
    }))
  } finally {
    await node.close()
  }
}
