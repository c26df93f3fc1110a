// Ethereum for the conformance suite: anvil, behind a proxy, read by the indexer of ETH over a websocket, with call traces. Each payment is
// the first transaction of an account of its own, so that each can be mined without the others; two of one account exclude each other.
import {randomBytes} from 'node:crypto'
import {encodeFunctionData, getAddress, type Hex, keccak256, toHex} from 'viem'
import {mnemonicToAccount, privateKeyToAccount} from 'viem/accounts'
import {MNEMONIC} from '../../devnet/evm/constants.ts'
import {Anvil, abis, localChainId} from '../support/anvil.ts'
import {type Behaviour, type Call, faults, RpcProxy} from '../support/rpc-proxy.ts'
import type {ChainUnderTest, Fault, LocalChain, Output, Payment, Place, Source} from './chain.ts'

/** Accounts 0 to 9 are anvil's own. */
const firstPayer = 10
const payers = 200
const keys = mnemonicToAccount(MNEMONIC, {path: "m/44'/60'/0'/0"}).getHdKey()
/** Output index of the first internal call; the one below it is the transaction itself. */
const firstInternal = 1_000_001

export const ethereum: ChainUnderTest = {
  name: 'ethereum',
  code: 'ETH',
  family: 'evm',
  token: 'ETH',
  showsUnmined: false,
  start: async finalDepth => {
    const anvil = await Anvil.start({slotsInAnEpoch: finalDepth / 2, rich: firstPayer + payers})
    return new LocalEthereum(anvil, await RpcProxy.start(anvil))
  },
}

class LocalEthereum implements LocalChain {
  readonly #anvil: Anvil
  readonly #proxy: RpcProxy
  readonly source: Source
  /** The account of each payment, by its index. */
  readonly #payerOf = new Map<string, number>()
  readonly #signed: Payment[] = []
  #payers = 0

  constructor(anvil: Anvil, proxy: RpcProxy) {
    this.#anvil = anvil
    this.#proxy = proxy
    this.source = new EthereumSource(anvil, proxy)
  }

  get environment(): Record<string, string> {
    return {
      ETH_RPC_URL: this.#proxy.wsUrl,
      ETH_CHAIN_ID: `${localChainId}`,
      ETH_USDC_ADDRESS: this.#anvil.usdc,
      ETH_TRACES: 'debug',
    }
  }

  newAddress(): string {
    return getAddress(`0x${randomBytes(20).toString('hex')}`)
  }

  async sign(outputs: Output[], insteadOf?: Payment): Promise<Payment> {
    const payer = insteadOf ? this.#payerOf.get(insteadOf.txid)! : this.#payers++
    const {to, value, data, gas} = this.#call(outputs)
    const raw = await privateKeyToAccount(toHex(keys.deriveChild(firstPayer + payer).privateKey!)).signTransaction({
      type: 'eip1559',
      chainId: localChainId,
      nonce: 0,
      maxFeePerGas: 10n ** 11n,
      maxPriorityFeePerGas: 10n ** 9n,
      to: to as Hex,
      value,
      data,
      gas,
    })
    const first = outputs.length > 1 ? firstInternal : 0
    const payment = {txid: keccak256(raw), raw, outputs: outputs.map((output, i) => ({...output, index: first + i}))}
    this.#payerOf.set(payment.txid, payer)
    this.#signed.push(payment)
    return payment
  }

  #call(outputs: Output[]): {to: string; value: bigint; data?: Hex; gas: bigint} {
    const [first, ...others] = outputs
    if (!others.length) return {to: first!.to, value: first!.amount, gas: 21_000n}
    const args = [outputs.map(({to}) => to), outputs.map(({amount}) => amount)]
    const data = encodeFunctionData({abi: abis.multisend, functionName: 'pay', args})
    const value = outputs.reduce((sum, {amount}) => sum + amount, 0n)
    return {to: this.#anvil.multisend, value, data, gas: 50_000n + 60_000n * BigInt(outputs.length)}
  }

  async send({raw}: Payment): Promise<void> {
    await this.#anvil.resend(raw)
  }

  async forget({txid}: Payment): Promise<void> {
    await this.#anvil.call('anvil_dropTransaction', [txid])
  }

  mine(blocks?: number) {
    return this.#anvil.mine(blocks)
  }

  async reorg(depth: number, again: Record<number, Payment[]> = {}) {
    const payersAgain = new Set(Object.values(again).flatMap(list => list.map(({txid}) => this.#payerOf.get(txid))))
    for (const payment of this.#signed) {
      const excluded = payersAgain.has(this.#payerOf.get(payment.txid)) && (await this.#place(payment)) === 'unmined'
      if (excluded) await this.forget(payment)
    }
    const kept = Object.entries(again).map(([place, list]) => [Number(place), list.map(({raw}) => raw)] as const)
    return await this.#anvil.reorg(depth, Object.fromEntries(kept))
  }

  head() {
    return this.#anvil.block()
  }

  async hashAt(height: number): Promise<string | undefined> {
    return (await this.#anvil.block(height)).hash
  }

  places(payments: Payment[]): Promise<Place[]> {
    return Promise.all(payments.map(payment => this.#place(payment)))
  }

  async #place({txid}: Payment): Promise<Place> {
    const found = await this.#anvil.call<{blockNumber: Hex | null; blockHash: string} | null>(
      'eth_getTransactionByHash',
      [txid],
    )
    if (!found) return
    return found.blockNumber ? {height: Number(found.blockNumber), hash: found.blockHash} : 'unmined'
  }

  received(address: string): Promise<bigint> {
    return this.#anvil.balance(address)
  }

  async stop(): Promise<void> {
    await this.#proxy.close()
    await this.#anvil.stop()
  }
}

class EthereumSource implements Source {
  readonly #anvil: Anvil
  readonly #proxy: RpcProxy
  #fault: Fault | undefined

  constructor(anvil: Anvil, proxy: RpcProxy) {
    this.#anvil = anvil
    this.#proxy = proxy
  }

  async behave(fault?: Fault): Promise<void> {
    const behave = fault && (await behaviours[fault](this.#anvil))
    this.#proxy.tellsHeads = fault !== 'lags'
    this.#proxy.behave = behave
    if (this.#fault === 'hangs') this.#proxy.disconnect()
    this.#fault = fault
  }

  async forget(below: number): Promise<void> {
    this.#proxy.behave = ({method, params}, pass) =>
      method === 'eth_getBlockReceipts' && Number(params[0]) < below ? null : pass()
  }

  asked(times: number): Promise<void> {
    return this.#proxy.asked(times)
  }
}

interface Block {
  number: Hex
  transactions: unknown[]
}

const behaviours: Record<Fault, (anvil: Anvil) => Behaviour | Promise<Behaviour>> = {
  lags: async anvil => {
    const then = (tag: string) => anvil.call<Block>('eth_getBlockByNumber', [tag, false])
    const [latest, finalized] = [await then('latest'), await then('finalized')]
    return ({method, params}, pass) => {
      if (method === 'eth_blockNumber') return latest.number
      if (method !== 'eth_getBlockByNumber') return pass()
      if (params[0] === 'latest') return latest
      if (params[0] === 'finalized') return finalized
      return Number(params[0]) > Number(latest.number) ? null : pass()
    }
  },
  'repeats itself': () => {
    const before = new Map<string, unknown>()
    let calls = 0
    return async (call, pass) => {
      const question = JSON.stringify(call)
      if (++calls % 2 === 0 && before.has(question)) return before.get(question)
      const answer = await pass()
      before.set(question, answer)
      return answer
    }
  },
  'answers emptily': () => async (call, pass) => {
    if (['eth_getBlockReceipts', 'debug_traceBlockByHash'].includes(call.method)) return []
    const answer = (await pass()) as Block | null
    return isFullBlock(call) && answer ? {...answer, transactions: []} : answer
  },
  fails: () => {
    let calls = 0
    const ways = [() => faults.error(), () => faults.drop(), () => faults.truncate(), () => faults.status(503)]
    return (_, pass) => (++calls % 3 === 0 ? pass() : ways[calls % ways.length]!())
  },
  hangs: () => () => faults.hang(),
  'is of another network': () => (call, pass) => (call.method === 'eth_chainId' ? '0x1' : pass()),
}

const isFullBlock = ({method, params}: Call) => method === 'eth_getBlockByNumber' && params[1] === true
