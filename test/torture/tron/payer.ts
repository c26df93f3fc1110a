// Pays on a Tron chain, with transfers and by a contract, and replaces its blocks. At the end it reads the chain from
// its bytes, without the code under test.
import type {ChainCode} from '../../../chains/registry.ts'
import {addressOf} from '../../../chains/tron/address.ts'
import {type Block, type Info, TronNode} from '../../../chains/tron/client.ts'
import {contractTypes, parseRawData, rawOf, type Transaction} from '../../../chains/tron/transaction.ts'
import {connect, dispersal, newAddress, payment, type TronClient} from '../../../devnet/tron/client.ts'
import {faucetKey} from '../../../devnet/tron/constants.ts'
import type {Cast} from '../family.ts'
import {often, type Payer} from '../payer.ts'
import type {Came, Ours, Truth} from '../truth.ts'

/** The solidified block is 18 below the head. */
const deepest = 8
const trx = 1_000_000n
/** Below the solidified block of every fork: payments stay valid. */
const referenceDepth = 30

export class TronPayer implements Payer {
  readonly chain: ChainCode
  readonly #cast: Cast
  /** The time at which each was made, by txid. */
  readonly #made = new Map<string, number>()
  readonly counts: Record<string, number> = {}

  constructor(chain: ChainCode, cast: Cast) {
    this.chain = chain
    this.#cast = {...cast, random: cast.random.fork(`payer ${chain}`)}
  }

  async #client(): Promise<TronClient> {
    return await connect(this.#cast.service.controlUrl(this.chain))
  }

  #node(): TronNode {
    const url = this.#cast.service.controlUrl(this.chain)
    return new TronNode({url, solidityUrl: url}, undefined, 10_000)
  }

  async begin(treasury: string): Promise<void> {
    const client = await this.#client()
    await client.mine(referenceDepth)
    await client.transfer({token: 'TRX', to: treasury, amount: '2000'})
    await client.mine(deepest)
  }

  actors(stopped: AbortSignal): Promise<void>[] {
    const {random, users} = this.#cast
    const each = (what: string, mostMs: number, work: (client: TronClient) => Promise<unknown>) =>
      often(this, what, {stopped, random, mostMs}, async () => work(await this.#client()))
    return [
      each('payments', 500, client => this.#pay(client, users.any(this.chain))),
      each('blocks', 1000, client => client.mine(1)),
      each('reorgs', 6000, client => client.reorg(random.between(1, deepest), {keepTransactions: random.chance(0.5)})),
    ]
  }

  async #pay(client: TronClient, to: string): Promise<void> {
    const {random} = this.#cast
    const {height} = await client.head()
    const header = await this.#node().header(Math.max(1, height - referenceDepth))
    const signing = {key: faucetKey, on: header!}
    const amount = () => random.amount(1n, random.chance(0.3) ? 200n * trx : 5n * trx)
    const transaction = random.chance(0.6)
      ? payment(signing, to, amount())
      : dispersal(signing, [
          {to, amount: amount()},
          {to: newAddress(), amount: amount()},
          {to, amount: amount()},
        ])
    this.#made.set(transaction.txid, Date.now())
    await client.submit(rawOf(transaction))
  }

  newAddress = newAddress

  mayBeReorged = () => true

  async lastHeight(): Promise<number> {
    return (await (await this.#client()).mine(1)).height
  }

  async truth({addresses, treasury}: Ours): Promise<Truth> {
    const client = await this.#client()
    const {blocks, moves} = await this.#read((await client.head()).height)
    const ours = [treasury, ...addresses]
    const isOurs = (address: string) => address === treasury || addresses.has(address)
    const held = new Map<string, bigint>()
    for (const address of ours) held.set(`${address} TRX`, await client.balance('TRX', address))
    const sent = moves.filter(({owner}) => isOurs(owner))
    return {
      blocks,
      deposits: moves.flatMap(({came}) => came).filter(({address}) => addresses.has(address)),
      paid: sent.flatMap(({came}) =>
        came
          .filter(({address}) => address !== treasury)
          .map(({txid, address: to, token, amount}) => ({txid, to, token, amount})),
      ),
      held,
      fees: sent.reduce((sum, {fee}) => sum + fee, 0n),
      wrong: [],
    }
  }

  async #read(last: number): Promise<{blocks: Map<number, string>; moves: Moved[]}> {
    const node = this.#node()
    const blocks = new Map<number, string>()
    const moves: Moved[] = []
    for (let from = 0; from <= last; from += 100)
      for (const block of await node.blocks(from, 100)) {
        blocks.set(block.height, block.hash)
        const infos = block.transactions.length ? await node.infos(block.height) : []
        for (const transaction of block.transactions)
          moves.push(this.#moved(block, transaction, infos.find(({txid}) => txid === transaction.txid)!))
      }
    return {blocks, moves}
  }

  #moved({height, time: minedAt}: Block, {txid, rawData, result}: Transaction, {fee, internals}: Info): Moved {
    const {type, owner, message} = parseRawData(rawData).contract
    const common = {txid, token: 'TRX', height, minedAt, madeAt: this.#made.get(txid)}
    const transfer = {outputIndex: 0, address: () => addressOf(message.bytes(2)), amount: message.integer(3)}
    const inside = internals.map(({to, values: [value]}, n) => {
      return {outputIndex: 1 + n, address: () => addressOf(to), amount: value!.amount}
    })
    const all = type === contractTypes.transfer ? [transfer] : inside
    const came = all.map(
      ({outputIndex, address, amount}): Came => ({...common, outputIndex, address: address(), amount}),
    )
    return {owner: owner!, fee, came: result === 'SUCCESS' ? came : []}
  }
}

interface Moved {
  owner: string
  fee: bigint
  came: Came[]
}
