// The client of a local chain, for the command line, the demo and the tests: sends from the faucet, mines, reorganises.
import {setTimeout as sleep} from 'node:timers/promises'
import {
  type Abi,
  encodeDeployData,
  encodeFunctionData,
  erc20Abi,
  getAddress,
  type Hex,
  isAddress,
  numberToHex,
  parseUnits,
} from 'viem'
import {z} from 'zod'
import {chain as registered} from '../../chains/registry.ts'
import {type LocalChainCode, MULTISEND_ADDRESS, USDC_ADDRESS, USDC_DECIMALS} from './constants.ts'
import contracts from './contracts.json' with {type: 'json'}

const CALL_TIMEOUT_MS = 120_000
const MINED_TIMEOUT_MS = 30_000

const Answer = z.object({result: z.unknown().optional(), error: z.object({message: z.string()}).optional()})
const Head = z.object({height: z.int(), hash: z.string(), timestamp: z.int()})
const Receipt = z.looseObject({
  blockNumber: z.string().transform(Number),
  status: z.enum(['0x0', '0x1']),
  contractAddress: z.string().nullish(),
})
/** What the chain says of itself (`devnet_info`). */
export const Info = z.object({
  chain: z.enum(['ETH', 'POLYGON']),
  chain_id: z.int(),
  block_interval_ms: z.int(),
  faucet_address: z.string(),
})
export type Info = z.infer<typeof Info>

/** The end of the chain; the time in seconds. */
export type Head = z.infer<typeof Head>
/** A transaction of the faucet; value and gas in wei and units. Given its gas, it is not tried first: it may then fail. */
export type Transaction = {to?: string; data?: Hex; value?: bigint; gas?: bigint}

/** Finds out what chain is served at ws://… or http://…; rejects when nothing or something else answers there. */
export async function connect(rpcUrl: string): Promise<LocalChainClient> {
  const url = rpcUrl.replace(/^ws/, 'http')
  let info: Info
  try {
    info = Info.parse(await call(url, 'devnet_info'))
  } catch (cause) {
    throw new Error(`no local chain answers at ${rpcUrl}`, {cause})
  }
  return new LocalChainClient(url, info)
}

export class LocalChainClient {
  readonly chain: LocalChainCode
  readonly info: Info
  /** http://… */
  readonly url: string

  constructor(url: string, info: Info) {
    this.url = url
    this.chain = info.chain
    this.info = info
  }

  /** Any JSON-RPC method; rejects with the chain's message where it refuses. */
  async rpc(method: string, params: unknown[] = []): Promise<unknown> {
    return await call(this.url, method, params)
  }

  async head(): Promise<Head> {
    const block = z
      .object({number: z.string(), hash: z.string(), timestamp: z.string()})
      .parse(await this.rpc('eth_getBlockByNumber', ['latest', false]))
    return {height: Number(block.number), hash: block.hash, timestamp: Number(block.timestamp)}
  }

  /** Pays `amount` (a decimal string) of the native coin or of USDC from the faucet. Resolves to the txid once it is mined. */
  async send(payment: {token: string; to: string; amount: string}): Promise<string> {
    const txid = await this.submit(this.payment(payment))
    await this.mined(txid)
    return txid
  }

  /** The transaction that pays; throws on an unknown token, a bad address, or an amount that the token cannot express. */
  payment({token, to, amount}: {token: string; to: string; amount: string}): Transaction {
    if (!isAddress(to)) throw new Error(`${to} is not an EVM address, or its capital letters are not its checksum`)
    const native = registered(this.chain).assets[0]
    if (token === native.token) return {to, value: baseUnits(amount, native)}
    if (token !== 'USDC')
      throw new Error(`the local ${this.chain} chain has no ${token}; it has ${native.token} and USDC`)
    const value = baseUnits(amount, {token, decimals: USDC_DECIMALS})
    return {to: USDC_ADDRESS, data: encodeFunctionData({abi: erc20Abi, functionName: 'transfer', args: [to, value]})}
  }

  /** Gives a transaction of the faucet to the pool, with the next nonce; the next block takes it. Resolves to the txid. */
  async submit({to, data, value, gas}: Transaction): Promise<string> {
    return z.string().parse(await this.rpc('eth_sendTransaction', [{to, data, value: hex(value), gas: hex(gas)}]))
  }

  /** The transaction that calls a function of the Multisend contract. */
  multisend(functionName: string, args: unknown[], value?: bigint): Transaction {
    const data = encodeFunctionData({abi: contracts.Multisend.abi as Abi, functionName, args})
    return {to: MULTISEND_ADDRESS, data, value}
  }

  /** Deploys a contract of devnet/evm/contracts from the faucet, such as a second, false USDC. Resolves to its address. */
  async deploy(name: keyof typeof contracts, args: unknown[]): Promise<string> {
    const {abi, bytecode} = contracts[name]
    const receipt = await this.mined(
      await this.submit({data: encodeDeployData({abi: abi as Abi, bytecode: bytecode as Hex, args})}),
    )
    return getAddress(z.string().parse(receipt.contractAddress))
  }

  /** Waits until a transaction is in a block, which it makes itself where the chain mines on request only. */
  async mined(txid: string): Promise<z.infer<typeof Receipt>> {
    for (const deadline = Date.now() + MINED_TIMEOUT_MS; ; await sleep(25)) {
      const receipt = await this.rpc('eth_getTransactionReceipt', [txid])
      if (receipt !== null) return Receipt.parse(receipt)
      if (Date.now() > deadline) throw new Error(`${txid} was not mined in ${MINED_TIMEOUT_MS / 1000} s`)
      if (this.info.block_interval_ms === 0) await this.mine(1)
    }
  }

  /** Mines so many blocks at once, at most 10,000. */
  async mine(blocks = 1): Promise<Head> {
    return Head.parse(await this.rpc('devnet_mine', [blocks]))
  }

  /**
   * Replaces the top `depth` blocks by depth + 1 new ones. Their transactions are mined again, each one block later than
   * before, with keepTransactions; without it they are gone. Rejects when the chain has no more than so many blocks.
   */
  async reorg(depth: number, {keepTransactions = false}: {keepTransactions?: boolean} = {}): Promise<Head> {
    return Head.parse(await this.rpc('devnet_reorg', [depth, keepTransactions]))
  }
}

/** A plain decimal amount in base units; throws on anything else, and on more decimals than the asset has. */
function baseUnits(amount: string, {token, decimals}: {token: string; decimals: number}): bigint {
  const [, fraction = ''] = /^\d+(?:\.(\d+))?$/.exec(amount) ?? fail(`${amount} is not an amount such as 12 or 0.5`)
  if (fraction.length > decimals) fail(`${token} has ${decimals} decimals; ${amount} has ${fraction.length}`)
  return parseUnits(amount, decimals)
}

function fail(message: string): never {
  throw new Error(message)
}

function hex(value: bigint | undefined): Hex | undefined {
  return value === undefined ? undefined : numberToHex(value)
}

async function call(url: string, method: string, params: unknown[] = []): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {'content-type': 'application/json'},
    body: JSON.stringify({jsonrpc: '2.0', id: 1, method, params}),
    signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
  })
  const {result, error} = Answer.parse(await response.json())
  if (error) throw new Error(error.message)
  return result
}
