// Pays on a chain of the made-up family, and replaces its blocks.
import {z} from 'zod'
import {fee, parseBlock, parseTransaction} from '../../../chains/madeup/block.ts'
import type {ChainCode} from '../../../chains/registry.ts'
import {families} from '../../../devnet/families.ts'
import type {MadeUpClient} from '../../../devnet/madeup/client.ts'
import {newAddress, payment} from '../../../devnet/madeup/client.ts'
import type {Cast} from '../family.ts'
import {often, type Payer} from '../payer.ts'
import type {Came, Ours, Truth} from '../truth.ts'

const deepest = 1 // the second block below the head is final

export class MadeUpPayer implements Payer {
  readonly chain: ChainCode
  readonly #cast: Cast
  /** The time at which each was made, by txid. */
  readonly #made = new Map<string, number>()
  readonly counts: Record<string, number> = {}

  constructor(chain: ChainCode, cast: Cast) {
    this.chain = chain
    this.#cast = {...cast, random: cast.random.fork(`payer ${chain}`)}
  }

  async #client(): Promise<MadeUpClient> {
    const {connect} = await families.madeup()
    return await connect(this.#cast.service.controlUrl(this.chain))
  }

  async begin(treasury: string): Promise<void> {
    const client = await this.#client()
    await this.#pay(client, treasury)
    await client.mine(deepest + 1)
  }

  actors(stopped: AbortSignal): Promise<void>[] {
    const {random, users} = this.#cast
    const each = (what: string, mostMs: number, work: (client: MadeUpClient) => Promise<unknown>) =>
      often(this, what, {stopped, random, mostMs}, async () => work(await this.#client()))
    return [
      each('payments', 500, client => this.#pay(client, users.any(this.chain))),
      each('blocks', 1000, client => client.mine(1)),
      each('reorgs', 6000, client => client.reorg(deepest)),
    ]
  }

  async #pay(client: MadeUpClient, to: string): Promise<void> {
    const raw = payment([{to, amount: this.#cast.random.amount(1n, 10_000n)}])
    this.#made.set(parseTransaction(raw).txid, Date.now())
    await client.submit(raw)
  }

  newAddress = newAddress

  mayBeReorged = () => true

  async lastHeight(): Promise<number> {
    return (await (await this.#client()).mine(1)).height
  }

  async truth({addresses, treasury}: Ours): Promise<Truth> {
    const client = await this.#client()
    const {height} = await client.head()
    const texts = z.array(z.string()).parse(await client.rpc('blocks', [...Array(height + 1).keys()]))
    const read = texts.map(parseBlock)
    const sent = read.flatMap(block =>
      block.transactions.map(parseTransaction).map(({txid, from, outputs}) => {
        const moved = block.failed.includes(txid) ? [] : outputs.map(({to, amount}) => ({to, amount: BigInt(amount)}))
        return {txid, from, moved, height: block.height, minedAt: block.time}
      }),
    )
    const came = sent.flatMap(({txid, moved, height, minedAt}) =>
      moved.map(({to: address, amount}, outputIndex): Came => {
        return {txid, outputIndex, address, token: 'MADE', amount, height, minedAt, madeAt: this.#made.get(txid)}
      }),
    )
    const isOurs = (address: string) => address === treasury || addresses.has(address)
    const ours = sent.filter(({from}) => isOurs(from))
    const held = new Map([treasury, ...addresses].map(address => [`${address} MADE`, 0n]))
    const add = (address: string, amount: bigint) => {
      const key = `${address} MADE`
      if (held.has(key)) held.set(key, held.get(key)! + amount)
    }
    for (const {address, amount} of came) add(address, amount)
    for (const {from, moved} of ours)
      add(
        from,
        moved.reduce((rest, {amount}) => rest - amount, 0n - fee),
      )
    const paid = ours.flatMap(({txid, moved}) => moved.map(({to, amount}) => ({txid, to, token: 'MADE', amount})))
    return {
      blocks: new Map(read.map(({height, hash}) => [height, hash])),
      deposits: came.filter(({address}) => addresses.has(address)),
      paid: paid.filter(({to}) => to !== treasury),
      held,
      fees: fee * BigInt(ours.length),
      wrong: [],
    }
  }
}
