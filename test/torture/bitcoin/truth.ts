// The truth of a local Bitcoin chain: every output to our addresses, and every transaction that spends one. Also checks
// everything that custody signed, mined or not: it spends only final outputs, and no two signatures of a purpose could
// both be mined.
import {address, Block, initEccLib, networks, Transaction} from 'bitcoinjs-lib'
import type pg from 'pg'
import * as ecc from 'tiny-secp256k1'
import {z} from 'zod'
import type {BitcoinClient} from '../../../devnet/bitcoin/client.ts'
import type {Came, Ours, Truth} from '../truth.ts'

initEccLib(ecc)

const token = 'BTC'

interface AskedOf extends Ours {
  /** The height that was final at a time, or a greater one. */
  finalAt(time: number): number
  /** All payments of the payer, and every other transaction that was ever mined or unconfirmed. */
  made: Set<string>
  /** The earliest time at which a payment could be seen. */
  madeAt(txid: string): number | undefined
}

/** An output to an address of ours. */
interface Coin extends Omit<Came, 'token'> {
  outpoint: string
  spentBy?: string
}

interface Found {
  blocks: Map<number, string>
  coins: Map<string, Coin>
  paid: Truth['paid']
  fees: bigint
  wrong: string[]
}

export async function readTruth(chain: BitcoinClient, asked: AskedOf): Promise<Truth> {
  const {treasury, addresses, db, madeAt} = asked
  const found = await readBlocks(chain, asked)
  const {blocks, coins, paid, fees, wrong} = found
  const deposits = [...coins.values()]
    .filter(coin => addresses.has(coin.address))
    .map(coin => ({...coin, token, madeAt: madeAt(coin.txid)}))
  const unspent = [...coins.values()].filter(({spentBy}) => !spentBy)
  const held = new Map([treasury, ...addresses].map(address => [`${address} ${token}`, 0n]))
  for (const {address, amount} of unspent) held.set(`${address} ${token}`, held.get(`${address} ${token}`)! + amount)
  wrong.push(...(await wrongOutputs(db, unspent)), ...(await wrongSignatures(found, asked)))
  wrong.push(...(await inventions(asked)))
  return {blocks, deposits, paid, held, fees, wrong}
}

async function readBlocks(chain: BitcoinClient, {treasury, addresses}: AskedOf): Promise<Found> {
  const found: Found = {blocks: new Map(), coins: new Map(), paid: [], fees: 0n, wrong: []}
  const {height: last} = await chain.head()
  for (let height = 1; height <= last; height++) {
    const {hash} = await chain.block(height)
    found.blocks.set(height, hash)
    const block = Block.fromHex(z.string().parse(await chain.rpc('getblock', [hash, false])))
    const mined = {height, minedAt: block.timestamp * 1000}
    for (const transaction of block.transactions!) readTransaction(transaction, mined, found, {treasury, addresses})
  }
  return found
}

function readTransaction(
  transaction: Transaction,
  mined: {height: number; minedAt: number},
  found: Found,
  {treasury, addresses}: Pick<Ours, 'treasury' | 'addresses'>,
): void {
  const {coins, paid, wrong} = found
  const txid = transaction.getId()
  const outputs = transaction.outs.map(({script, value}, outputIndex) => {
    return {outpoint: `${txid}:${outputIndex}`, txid, outputIndex, address: addressOf(script), amount: value, ...mined}
  })
  const spent = outpointsSpent(transaction).map(outpoint => coins.get(outpoint))
  const own = spent.filter(coin => coin !== undefined)
  for (const output of outputs)
    if (output.address === treasury || addresses.has(output.address)) coins.set(output.outpoint, output)
  if (own.length === 0) return
  for (const coin of own) coin.spentBy = txid
  if (own.length < spent.length) wrong.push(`${txid} spends outputs of ours together with foreign ones`)
  for (const {address, amount} of outputs) if (address !== treasury) paid.push({txid, to: address, token, amount})
  found.fees += sum(own) - sum(outputs)
}

function sum(amounts: {amount: bigint}[]): bigint {
  return amounts.reduce((total, {amount}) => total + amount, 0n)
}

/** The database form: 'txid:vout'. */
export function outpointsSpent(transaction: Transaction): string[] {
  return transaction.ins.map(({hash, index}) => `${Buffer.from(hash).reverse().toString('hex')}:${index}`)
}

function addressOf(script: Uint8Array): string {
  try {
    return address.fromOutputScript(script, networks.regtest)
  } catch {
    return `script ${Buffer.from(script).toString('hex')}`
  }
}

/** The service's list of spendable outputs equals the unspent ones. */
async function wrongOutputs(db: pg.Pool, unspent: Coin[]): Promise<string[]> {
  const {rows} = await db.query<{outpoint: string; address: string; amount: string}>(
    `select txid || ':' || vout as outpoint, address, amount from app.output where chain = 'BTC' and spent_by is null`,
  )
  const kept = new Set(rows.map(({outpoint, address, amount}) => `${outpoint} of ${address} with ${amount}`))
  const real = new Set(unspent.map(({outpoint, address, amount}) => `${outpoint} of ${address} with ${amount}`))
  return [
    ...[...real].filter(it => !kept.has(it)).map(output => `unspent, and not in app.output: ${output}`),
    ...[...kept].filter(it => !real.has(it)).map(output => `unspent in app.output, and not on the chain: ${output}`),
  ]
}

/** Custody's signatures; all of one purpose spend the same first input. */
interface Signed {
  txid: string
  raw: string
  firstInput: string
  signed_at: Date
}

async function wrongSignatures({coins}: Found, {db, finalAt}: AskedOf): Promise<string[]> {
  const {rows} = await db.query<Signed>(
    `select txid, raw, conflict_key as "firstInput", signed_at from custody.journal where stream = 'BTC' and raw is not null order by seq`,
  )
  const wrong: string[] = []
  const earlier = new Map<string, Set<string>>()
  for (const {txid, raw, firstInput, signed_at} of rows) {
    const transaction = Transaction.fromHex(raw)
    const inputs = new Set(outpointsSpent(transaction))
    if (transaction.getId() !== txid || !inputs.has(firstInput)) wrong.push(`${txid} is not signed as journalled`)
    for (const outpoint of inputs) {
      const height = coins.get(outpoint)?.height ?? Number.POSITIVE_INFINITY
      const final = finalAt(signed_at.getTime())
      if (height > final)
        wrong.push(`${txid} spends ${outpoint} of height ${height}, and when it was signed ${final} was final`)
    }
    const missing = [...(earlier.get(firstInput) ?? [])].filter(outpoint => !inputs.has(outpoint))
    if (missing.length)
      wrong.push(`${txid} does not spend ${missing}, which an earlier attempt with ${firstInput} spends`)
    earlier.set(firstInput, inputs)
  }
  const signed = new Set(rows.map(({txid}) => txid))
  const unknown = new Set(
    [...coins.values()].flatMap(({spentBy}) => (spentBy && !signed.has(spentBy) ? [spentBy] : [])),
  )
  return [...wrong, ...[...unknown].map(txid => `${txid} spends outputs of ours, and is not in custody's journal`)]
}

/** Deposits of transactions that do not exist. */
async function inventions({db, made}: AskedOf): Promise<string[]> {
  const {rows} = await db.query<{txid: string}>(
    `select txid from app.deposit where chain = 'BTC' and merchant_id is not null`,
  )
  return rows
    .filter(({txid}) => !made.has(txid))
    .map(({txid}) => `a deposit of ${txid}, a transaction that does not exist`)
}
