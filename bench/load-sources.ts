// Where the deposits of the load test (load.ts) come from: payments in blocks of local chains, which indexers read; or
// rows that are written as an indexer's store writes them, where the local chains would be the limit.
import {randomBytes} from 'node:crypto'
import {setTimeout as sleep} from 'node:timers/promises'
import pg from 'pg'
import {encodeFunctionData, erc20Abi, formatUnits, type Hex} from 'viem'
import {type ChainCode, chain as registered} from '../chains/registry.ts'
import {rawOf} from '../chains/tron/transaction.ts'
import type {BitcoinClient} from '../devnet/bitcoin/client.ts'
import type {LocalClient} from '../devnet/client.ts'
import type {EvmClient} from '../devnet/evm/client.ts'
import {multisendAddress, usdcAddress} from '../devnet/evm/constants.ts'
import {findLocalChain} from '../devnet/families.ts'
import type {SolanaClient} from '../devnet/solana/client.ts'
import {faucet, faucetKey as solanaKey} from '../devnet/solana/constants.ts'
import {transactionWith, transfer} from '../devnet/solana/transaction.ts'
import {dispersal, type TronClient} from '../devnet/tron/client.ts'
import {faucetKey as tronKey} from '../devnet/tron/constants.ts'
import {now} from './load-merchants.ts'

export interface Payment {
  chain: ChainCode
  token: string
  to: string
  /** In base units. No other payment has it. */
  amount: bigint
}

export interface Source {
  /** One payment of so many is in a token, where the chain has some. */
  tokenOneIn(chain: ChainCode): number
  /** Resolves once the chain has them; calls `sent` with each part of them that it has. */
  pay(chain: ChainCode, payments: Payment[], sent: (payments: Payment[]) => void): Promise<void>
  /**
   * When the deposit could be seen first, by `now`: with its block, or, on Bitcoin, as an unconfirmed payment.
   * Undefined if it is in no block.
   */
  shownAt(deposit: {chain: ChainCode; height: number | null; sentAt: number}): number | undefined
  close(): Promise<void>
}

const pollMs = 10
/** A transaction of Solana has at most 1,232 bytes. */
const mostOnSolana = 16

// --- local chains ---

/** Pays with one transaction for each payment; from `perTransaction` 2 on, so many native payments share one. */
export class LocalSource implements Source {
  readonly #clients: Map<ChainCode, LocalClient>
  readonly #shown = new Map<string, number>()
  readonly #watching: Promise<void>[]
  #closed = false
  perTransaction = 1

  private constructor(clients: Map<ChainCode, LocalClient>) {
    this.#clients = clients
    this.#watching = [...clients.values()].map(client => this.#watch(client))
  }

  static async open(home: string, chains: readonly ChainCode[]): Promise<LocalSource> {
    const clients = new Map<ChainCode, LocalClient>()
    for (const code of chains) clients.set(code, await findLocalChain(home, code))
    for (const client of clients.values()) if (isEvm(client)) await approveMultisend(client)
    return new LocalSource(clients)
  }

  /** Asks for the head again and again around the time at which it is due. */
  async #watch(client: LocalClient): Promise<void> {
    let last = (await client.head()).height
    while (!this.#closed) {
      const {height} = await client.head().catch(() => ({height: last})) // it is busy: asked again
      const at = now()
      const isNew = height !== last
      for (; last < height; last++) this.#shown.set(`${client.chain} ${last + 1}`, at)
      await sleep(isNew ? 0.8 * client.info.block_interval_ms : pollMs)
    }
  }

  /** No contract of Tron or Solana pays several in tokens: there are no more of these payments than at first. */
  tokenOneIn(code: ChainCode): number {
    return isEvm(this.#clients.get(code)!) ? 2 : 2 * this.perTransaction
  }

  async pay(code: ChainCode, payments: Payment[], sent: (payments: Payment[]) => void): Promise<void> {
    const client = this.#clients.get(code)!
    const native = payments.filter(({token}) => token === registered(code).assets[0].token)
    const tokens = payments.filter(payment => !native.includes(payment))
    const all = async (payments: Payment[], size: number, pay: typeof payNative) =>
      await Promise.all(inParts(payments, size).map(some => pay(client, some).then(() => sent(some))))
    await all(native, this.perTransaction, payNative)
    await all(tokens, isEvm(client) ? this.perTransaction : 1, payTokens)
  }

  shownAt({chain, height, sentAt}: Parameters<Source['shownAt']>[0]): number | undefined {
    return chain === 'BTC' ? sentAt : this.#shown.get(`${chain} ${height}`)
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#watching)
  }
}

function inParts(payments: Payment[], size: number): Payment[][] {
  return Array.from({length: Math.ceil(payments.length / size)}, (_, n) => payments.slice(n * size, (n + 1) * size))
}

const isEvm = (client: LocalClient): client is EvmClient => registered(client.chain).family === 'evm'

async function approveMultisend(client: EvmClient): Promise<void> {
  const data = encodeFunctionData({abi: erc20Abi, functionName: 'approve', args: [multisendAddress, 2n ** 200n]})
  await client.mined(await client.transact({to: usdcAddress, data}))
}

async function payNative(client: LocalClient, payments: Payment[]): Promise<void> {
  const [first] = payments
  switch (registered(client.chain).family) {
    case 'bitcoin':
      await (client as BitcoinClient).pay(payments)
      return
    case 'evm':
      if (payments.length > 1) await paySeveral(client as EvmClient, payments)
      else await (client as EvmClient).transact({to: first!.to, value: first!.amount, gas: 21_000n})
      return
    case 'tron':
      if (payments.length > 1) await disperse(client as TronClient, payments)
      else await client.transfer(asked(first!))
      return
    case 'solana':
      if (payments.length > 1) for (const some of inParts(payments, mostOnSolana)) await payAtOnce(client, some)
      else await client.transfer(asked(first!))
  }
}

async function payTokens(client: LocalClient, payments: Payment[]): Promise<void> {
  if (payments.length > 1) await paySeveral(client as EvmClient, payments)
  else if (isEvm(client)) await client.transact({...client.payment(asked(payments[0]!)), gas: 100_000n})
  else await client.transfer(asked(payments[0]!))
}

function asked({chain, token, to, amount}: Payment): {token: string; to: string; amount: string} {
  return {token, to, amount: formatUnits(amount, decimalsOf(chain, token))}
}

export function decimalsOf(code: ChainCode, token: string): number {
  return registered(code).assets.find(asset => asset.token === token)!.decimals
}

/** All of one token. */
async function paySeveral(client: EvmClient, payments: Payment[]): Promise<void> {
  const [to, amounts] = [payments.map(payment => payment.to), payments.map(payment => payment.amount)]
  const isNative = payments[0]!.token !== 'USDC'
  const total = amounts.reduce((sum, amount) => sum + amount, 0n)
  const transaction = isNative
    ? client.multisend('pay', [to, amounts], total)
    : client.multisend('payTokens', [usdcAddress, to, amounts])
  await client.transact({...transaction, gas: 100_000n + 60_000n * BigInt(payments.length)}) // it is not tried first
}

async function disperse(client: TronClient, payments: Payment[]): Promise<void> {
  await client.submit(rawOf(dispersal({key: tronKey, on: await client.head()}, payments)))
}

async function payAtOnce(client: LocalClient, payments: Payment[]): Promise<void> {
  const instructions = payments.map(({to, amount}) => transfer(faucet, to, amount))
  const raw = transactionWith(instructions, {key: solanaKey, on: (await client.head()).hash})
  await (client as SolanaClient).submit(Buffer.from(raw).toString('hex'))
}

// --- rows ---

/** As many blocks below the head are not final, as on the local chain of Ethereum. */
const notFinal = 8

/** Each call writes a block, in one transaction, and makes the block final that is deep enough by now. */
export class WrittenSource implements Source {
  readonly #clients = new Map<ChainCode, pg.Client>()
  readonly #blocks = new Map<ChainCode, string[]>()
  readonly #shown = new Map<string, number>()

  static async open(databaseUrl: string, chains: readonly ChainCode[]): Promise<WrittenSource> {
    const source = new WrittenSource()
    for (const code of chains) {
      const client = new pg.Client({connectionString: databaseUrl})
      await client.connect()
      await client.query(`select chain.anchor($1, 'bench', 0, 'anchor', now())`, [code])
      source.#clients.set(code, client)
      source.#blocks.set(code, ['anchor'])
    }
    return source
  }

  tokenOneIn = () => 2

  async pay(code: ChainCode, payments: Payment[], sent: (payments: Payment[]) => void): Promise<void> {
    const client = this.#clients.get(code)!
    const blocks = this.#blocks.get(code)!
    const hash = newHash()
    this.#shown.set(`${code} ${blocks.length}`, now())
    await client.query('begin')
    await client.query(
      'insert into chain.block (id, chain, height, hash, parent_hash, time) values ($1, $2, $3, $4, $5, now())',
      [`${code}:${blocks.length}`, code, blocks.length, hash, blocks.at(-1)],
    )
    await client.query(
      `insert into chain.transfer (id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient, transfer_kind)
       select $1 || ':' || txid || ':0', $1, txid, 0, $2, $3, now(), token, amount, 'sender', recipient, 'native'
       from unnest($4::text[], $5::text[], $6::numeric[], $7::text[]) as t (txid, token, amount, recipient)`,
      [
        ...[code, blocks.length, hash, payments.map(newHash)],
        ...[payments.map(({token}) => token), payments.map(({amount}) => amount), payments.map(({to}) => to)],
      ],
    )
    await client.query(`update squid_${code.toLowerCase()}.status set nonce = nonce + 1`)
    await client.query('commit')
    sent(payments)
    blocks.push(hash)
    const final = blocks.length - 1 - notFinal
    if (final > 0) await client.query('select chain.finalise($1, $2, $3)', [code, final, blocks[final]])
  }

  shownAt({chain, height}: Parameters<Source['shownAt']>[0]): number | undefined {
    return this.#shown.get(`${chain} ${height}`)
  }

  async close(): Promise<void> {
    for (const client of this.#clients.values()) await client.end()
  }
}

const newHash = (): Hex => `0x${randomBytes(32).toString('hex')}`
