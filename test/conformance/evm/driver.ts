// Ethereum for the conformance suite: anvil, behind a proxy, read by the indexer of ETH over a websocket, with call
// traces. Each payment is the first transaction of its own account, so that each can be mined without the others; two
// of one account exclude each other. The accounts have ether and one of several tokens in turn, and pay one recipient
// in one asset.
import {randomBytes} from 'node:crypto'
import {encodeFunctionData, getAddress, type Hex, keccak256, toHex} from 'viem'
import {mnemonicToAccount, privateKeyToAccount} from 'viem/accounts'
import {mnemonic} from '../../../devnet/evm/constants.ts'
import {type LocalToken, tokens} from '../../../devnet/evm/tokens.ts'
import {Anvil, abis, localChainId} from '../../support/evm/anvil.ts'
import {type Call, RpcProxy} from '../../support/rpc-proxy.ts'
import type {ChainUnderTest, LocalChain, Output, Payment, Place} from '../chain.ts'
import {Purses} from '../purses.ts'
import {type Forms, RpcSource} from '../rpc-source.ts'

/** Accounts 0 to 9 are anvil's own. */
const firstPayer = 10
const keys = mnemonicToAccount(mnemonic, {path: "m/44'/60'/0'/0"}).getHdKey()
const payers = Array.from({length: 200}, (_, n) => {
  const account = privateKeyToAccount(toHex(keys.deriveChild(firstPayer + n).privateKey!))
  return {account, token: [undefined, ...tokens][n % (1 + tokens.length)]}
})
/** Of its token, in base units. */
const payerHas = 10n ** 9n
/** Output index of the first internal call; the one below it is the transaction itself. */
const firstInternal = 1_000_001

export const ethereum: ChainUnderTest = {
  name: 'ethereum',
  code: 'ETH',
  showsUnconfirmed: false,
  start: async finalDepth => {
    const anvil = await Anvil.start({slotsInAnEpoch: finalDepth / 2, rich: firstPayer + payers.length})
    for (const token of tokens) await endow(anvil, token)
    await anvil.mine()
    return new LocalEthereum(anvil, await RpcProxy.start(anvil))
  },
}

/** Gives the accounts that pay in a token their amount of it. */
async function endow(anvil: Anvil, token: LocalToken): Promise<void> {
  const to = payers.filter(payer => payer.token === token).map(({account}) => account.address)
  const args = [token.contract, to, to.map(() => payerHas)]
  const data = encodeFunctionData({abi: abis.multisend, functionName: 'payTokens', args})
  await anvil.send({to: anvil.multisend, data, gas: 6_000_000})
}

class LocalEthereum implements LocalChain {
  readonly #anvil: Anvil
  readonly #proxy: RpcProxy
  readonly source: RpcSource
  /** Accounts, each with one transaction. */
  readonly #purses = new Purses()
  readonly #signed: Payment[] = []

  constructor(anvil: Anvil, proxy: RpcProxy) {
    this.#anvil = anvil
    this.#proxy = proxy
    this.source = new RpcSource(proxy, forms(anvil))
  }

  get environment(): Record<string, string> {
    return {
      ETH_RPC_URL: this.#proxy.wsUrl,
      ETH_CHAIN_ID: `${localChainId}`,
      ETH_USDC_CONTRACT: this.#anvil.usdc,
      ETH_TOKENS: this.#anvil.ownTokens,
      ETH_TRACES: 'debug',
    }
  }

  newAddress(): string {
    return getAddress(`0x${randomBytes(20).toString('hex')}`)
  }

  async sign(outputs: Output[], insteadOf?: Payment): Promise<Payment> {
    const payer = this.#purses.take(insteadOf)
    const {account, ...its} = payers[payer]!
    const token = outputs.length === 1 ? its.token : undefined
    const {to, value, data, gas} = this.#call(outputs, token)
    const raw = await account.signTransaction({
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
    const first = token ? 1 : outputs.length > 1 ? firstInternal : 0
    const paid = outputs.map((output, i) => ({...output, index: first + i, token: token?.token}))
    const payment = {txid: keccak256(raw), raw, outputs: paid}
    this.#purses.spend(payer, payment)
    this.#signed.push(payment)
    return payment
  }

  #call(outputs: Output[], token?: LocalToken): {to: string; value: bigint; data?: Hex; gas: bigint} {
    const [first, ...others] = outputs
    if (token) {
      const args = [first!.to, first!.amount]
      const data = encodeFunctionData({abi: abis.usdc, functionName: 'transfer', args})
      return {to: token.contract, value: 0n, data, gas: 100_000n}
    }
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
    const spentAgain = new Set(Object.values(again).flatMap(list => list.map(payment => this.#purses.of(payment))))
    for (const payment of this.#signed) {
      const excluded = spentAgain.has(this.#purses.of(payment)) && (await this.#place(payment)) === 'unconfirmed'
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
    return found.blockNumber ? {height: Number(found.blockNumber), hash: found.blockHash} : 'unconfirmed'
  }

  async received(address: string): Promise<bigint> {
    const held = tokens.map(({contract}) => this.#anvil.tokenBalance(address, contract))
    const all = await Promise.all([this.#anvil.balance(address), ...held])
    return all.reduce((sum, amount) => sum + amount)
  }

  async stop(): Promise<void> {
    await this.source.close()
    await this.#anvil.stop()
  }
}

interface Block {
  number: Hex
  transactions: unknown[]
}

const forms = (anvil: Anvil): Forms => ({
  lags: async () => {
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
  'returns nothing': () => async (call, pass) => {
    if (['eth_getBlockReceipts', 'debug_traceBlockByHash'].includes(call.method)) return []
    const response = (await pass()) as Block | null
    return isFullBlock(call) && response ? {...response, transactions: []} : response
  },
  'is of another network': () => (call, pass) => (call.method === 'eth_chainId' ? '0x1' : pass()),
  forgets:
    below =>
    ({method, params}, pass) =>
      method === 'eth_getBlockReceipts' && Number(params[0]) < below ? null : pass(),
})

const isFullBlock = ({method, params}: Call) => method === 'eth_getBlockByNumber' && params[1] === true
