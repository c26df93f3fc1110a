// Pays on a Tron chain, with transfers, by a contract and in tokens, and replaces its blocks.
import type {ChainCode} from '../../../chains/registry.ts'
import {rawOf, type Transaction} from '../../../chains/tron/transaction.ts'
import {
  call,
  connect,
  dispersal,
  newAddress,
  payment,
  type Signing,
  type TronClient,
} from '../../../devnet/tron/client.ts'
import {contracts, faucetKey, issuer, issuerKey} from '../../../devnet/tron/constants.ts'
import {issuerData, tokenTransferData} from '../../../devnet/tron/contracts.ts'
import type {Cast} from '../family.ts'
import {freeze, type Issuer} from '../issuer.ts'
import {often, type Payer} from '../payer.ts'
import type {Requested} from '../payments.ts'
import type {Ours, Truth} from '../truth.ts'
import {nodeAt, readTruth} from './truth.ts'

/** The solidified block is 18 below the head. */
const deepest = 8
const unit = 1_000_000n
/** Below the solidified block of every fork: payments stay valid. */
const referenceDepth = 30
/** A tenth of what a transfer of USDT costs. */
const tooLowLimit = 300_000n
const busiest = 34_000

const weights = {
  payment: 6,
  dispersal: 4,
  'of USDT': 6,
  'of an unknown token': 1,
  'out of energy': 1,
  'of more USDT than there is': 1,
}

export class TronPayer implements Payer {
  readonly chain: ChainCode
  readonly #cast: Cast
  /** The time at which each was made, by txid. */
  readonly #sent = new Map<string, number>()
  readonly counts: Record<string, number> = {}

  constructor(chain: ChainCode, cast: Cast) {
    this.chain = chain
    this.#cast = {...cast, random: cast.random.fork(`payer ${chain}`)}
  }

  async #client(): Promise<TronClient> {
    return await connect(this.#cast.service.controlUrl(this.chain))
  }

  async begin(treasury: string): Promise<void> {
    const client = await this.#client()
    await client.mine(referenceDepth)
    await client.transfer({token: 'TRX', to: treasury, amount: '20000'})
    // Amounts too small to be swept are advanced from the operator's own, or a payout that claims them would wait for
    // ever.
    await client.transfer({token: 'USDT', to: treasury, amount: '50000'})
    await client.mine(deepest)
  }

  actors(stopped: AbortSignal): Promise<void>[] {
    const {random, users} = this.#cast
    const each = (what: string, mostMs: number, work: (client: TronClient) => Promise<unknown>) =>
      often(this, what, {stopped, random, mostMs}, async () => work(await this.#client()))
    const pick = {issuer: () => this.#issuer(), address: () => users.any(this.chain)}
    return [
      each('payments', 500, client => this.#pay(client)),
      each('blocks', 1000, client => client.mine(1)),
      each('reorgs', 6000, client => client.reorg(random.between(1, deepest), {keepTransactions: random.chance(0.5)})),
      each('busy contracts', 6000, client =>
        client.setEnergyFactor(contracts.usdt, random.chance(0.5) ? 0 : random.between(1, busiest)),
      ),
      freeze(this, {stopped, random}, pick),
    ]
  }

  async #signing(client: TronClient, key = faucetKey): Promise<Signing> {
    const {height} = await client.head()
    return {key, on: (await nodeAt(client.url).header(Math.max(1, height - referenceDepth)))!}
  }

  async #pay(client: TronClient): Promise<void> {
    const {random, payments} = this.#cast
    const signing = await this.#signing(client)
    const request = random.chance(0.3) ? payments.any(this.chain, random) : undefined
    const transactions = request ? this.#payRequest(signing, request) : [this.#payUser(signing)]
    for (const transaction of transactions) {
      this.#sent.set(transaction.txid, Date.now())
      await client.submit(rawOf(transaction))
    }
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }

  #payUser(signing: Signing): Transaction {
    const {random, users} = this.#cast
    const to = users.any(this.chain)
    const amount = () => random.amount(1n, random.chance(0.3) ? 200n * unit : 5n * unit)
    const tokens = (contract: string, amount: bigint, feeLimit?: bigint) =>
      call(signing, {contract, data: tokenTransferData(to, amount), feeLimit})
    const ways: Record<keyof typeof weights, () => Transaction> = {
      payment: () => payment(signing, to, amount()),
      dispersal: () =>
        dispersal(signing, [
          {to, amount: amount()},
          {to: newAddress(), amount: amount()},
          {to, amount: amount()},
        ]),
      'of USDT': () => tokens(contracts.usdt, amount()),
      'of an unknown token': () => tokens(contracts.token, amount()),
      'out of energy': () => tokens(contracts.usdt, amount(), tooLowLimit),
      'of more USDT than there is': () => tokens(contracts.usdt, 10n ** 20n),
    }
    const way = random.weighted(weights)
    this.#count(way)
    return ways[way]()
  }

  /** Mostly as requested; else in the other token. */
  #payRequest(signing: Signing, request: Requested): Transaction[] {
    const {random, payments} = this.#cast
    const {address, asset} = request
    const isRight = asset.chain === this.chain && random.chance(0.9)
    const isUsdt = (asset.token === 'USDT') === isRight
    this.#count(`requests ${isRight ? '' : 'wrongly '}paid in ${isUsdt ? 'USDT' : 'TRX'}`)
    return payments
      .parts(request, random)
      .map(amount =>
        isUsdt
          ? call(signing, {contract: contracts.usdt, data: tokenTransferData(address, amount)})
          : payment(signing, address, amount),
      )
  }

  #issuer(): Issuer {
    const asked = (name: string, address?: string) => Buffer.from(issuerData(name, address ? [address] : []))
    return {
      set: async (address, isOn) => {
        const name = address ? (isOn ? 'addBlackList' : 'removeBlackList') : isOn ? 'pause' : 'unpause'
        const client = await this.#client()
        const data = asked(name, address)
        await client.submit(rawOf(call(await this.#signing(client, issuerKey), {contract: contracts.usdt, data})))
      },
      isSet: async address => {
        const data = asked(address ? 'isBlackListed' : 'paused', address).toString('hex')
        const node = nodeAt((await this.#client()).url)
        const {returned} = await node.try({from: issuer, contract: contracts.usdt, data})
        return BigInt(`0x${Buffer.from(returned).toString('hex')}`) !== 0n
      },
      mine: async () => (await this.#client()).mine(1),
      bury: async () => (await this.#client()).mine(deepest + 1),
    }
  }

  newAddress = newAddress

  mayBeReorged = () => true

  async lastHeight(): Promise<number> {
    return (await (await this.#client()).mine(1)).height
  }

  truth = async (ours: Ours): Promise<Truth> => await readTruth(await this.#client(), this.#sent, ours)
}
