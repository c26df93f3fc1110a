// A real Ethereum chain for tests: anvil itself. It mines on request and forks to any depth on request, and tests
// compare results with it. (devnet/ is the chain for users; these tests need direct control of the engine.)
import {type ChildProcess, spawn} from 'node:child_process'
import {randomBytes} from 'node:crypto'
import {once} from 'node:events'
import {createRequire} from 'node:module'
import path from 'node:path'
import {createInterface} from 'node:readline'
import {type Abi, encodeFunctionData, getContractAddress, type Hex, maxUint256, numberToHex} from 'viem'
import {accounts, deployer, multisendAddress} from '../../../devnet/evm/constants.ts'
import contracts from '../../../devnet/evm/contracts.json' with {type: 'json'}
import {deployment, tokenEntry, tokens} from '../../../devnet/evm/tokens.ts'

export const localChainId = 31_337
export const abis = {
  usdc: contracts.TestToken.abi as Abi,
  usdt: contracts.TestUsdt.abi as Abi,
  multisend: contracts.Multisend.abi as Abi,
}

const [usdc, ...others] = tokens
/** Tokens beside USDC, each with its own EIP-712 domain, as an operator enters them. The second has 18 decimals. */
export const ownTokens = others.map(token => tokenEntry('ETH', token))

export interface Sent {
  /** Index of the account that pays; default 1. */
  by?: number
  to?: string
  value?: bigint
  data?: Hex
  /** Replaces the transaction with this nonce. */
  nonce?: number
  gas?: number
}

export interface Head {
  height: number
  hash: string
}

/**
 * With call traces on, do not mine without a pause while an indexer follows: anvil 1.7.1 may stand still for good.
 * (Tracing a transaction takes the lock of its blocks twice, and a block that is being mined waits for it in between.)
 */
export class Anvil {
  readonly #child: ChildProcess
  readonly httpUrl: string
  readonly wsUrl: string
  /** Contracts that each chain has from block 1 on, like local chains, and two more. */
  readonly usdc = usdc.contract.toLowerCase()
  readonly multisend = multisendAddress.toLowerCase()
  /** Pays one of two recipients, by the parity of the block's height. */
  readonly switch = getContractAddress({from: deployer.address, nonce: 5n}).toLowerCase()
  /** Like USDC, at another address. */
  readonly fakeUsdc = getContractAddress({from: deployer.address, nonce: 6n}).toLowerCase()
  /** The value of ETH_TOKENS that names the tokens beside USDC. */
  readonly ownTokens = JSON.stringify(ownTokens)

  private constructor(child: ChildProcess, address: string) {
    this.#child = child
    this.httpUrl = `http://${address}`
    this.wsUrl = `ws://${address}`
  }

  /**
   * `finalized` trails the head by twice `slotsInAnEpoch` blocks. Block 1 holds the contracts. `rich` accounts have
   * ether.
   */
  static async start({
    slotsInAnEpoch = 4,
    chainId = localChainId,
    rich = 10,
    hardfork = 'cancun',
  } = {}): Promise<Anvil> {
    const options = {
      port: 0,
      'chain-id': chainId,
      'slots-in-an-epoch': slotsInAnEpoch,
      accounts: rich,
      hardfork,
      order: 'fifo',
    }
    const words = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
    const child = spawn(binary(), ['--no-mining', ...words], {stdio: ['ignore', 'pipe', 'pipe']})
    child.stderr!.pipe(process.stderr, {end: false})
    const kill = () => child.kill('SIGKILL')
    process.once('exit', kill)
    child.once('exit', () => process.off('exit', kill))
    for await (const line of createInterface({input: child.stdout!})) {
      const listening = /^Listening on (.*)/.exec(line)
      if (!listening) continue
      const anvil = new Anvil(child, listening[1]!)
      await anvil.call('anvil_setLoggingEnabled', [false])
      await anvil.#deploy()
      return anvil
    }
    throw new Error('anvil ended before it listened')
  }

  async #deploy(): Promise<void> {
    const [first, ...more] = tokens.map(token => deployment(token, accounts[1]!.address))
    for (const data of [first!, contracts.Multisend.bytecode as Hex, ...more, switchCode, first!])
      await this.send({by: 9, data})
    const approve = {abi: abis.usdc, functionName: 'approve', args: [this.multisend, maxUint256]}
    for (const {contract} of tokens) await this.send({to: contract, data: encodeFunctionData(approve)})
    await this.mine()
  }

  async stop(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const exited = once(this.#child, 'exit')
    if (this.#child.kill(signal)) await exited
  }

  async call<T = unknown>(method: string, params: unknown[] = []): Promise<T> {
    const response = await fetch(this.httpUrl, {
      method: 'POST',
      headers: {'content-type': 'application/json'},
      body: JSON.stringify({jsonrpc: '2.0', id: 1, method, params}),
      signal: AbortSignal.timeout(60_000),
    })
    const {result, error} = (await response.json()) as {result: T; error?: {message: string}}
    if (error) throw new Error(`${method}: ${error.message}`)
    return result
  }

  async block(at: number | 'latest' | 'finalized' = 'latest'): Promise<Head & {transactions: string[]}> {
    const block = await this.call<{number: Hex; hash: string; transactions: string[]}>('eth_getBlockByNumber', [
      typeof at === 'number' ? numberToHex(at) : at,
      false,
    ])
    return {height: Number(block.number), hash: block.hash, transactions: block.transactions}
  }

  /** Mines blocks with this base fee; transactions that offer less stay in the mempool. */
  async mineAt(baseFee: bigint, blocks = 1): Promise<void> {
    await this.call('anvil_setNextBlockBaseFeePerGas', [`0x${baseFee.toString(16)}`])
    await this.mine(blocks)
  }

  /** Mines this many blocks; the first takes the waiting transactions. */
  async mine(blocks = 1): Promise<Head & {transactions: string[]}> {
    await this.call('anvil_mine', [numberToHex(blocks)])
    return await this.block()
  }

  /** Sends a transaction to the mempool. Resolves to its txid. */
  async send({by = 1, to, value = 0n, data, nonce, gas = 1_900_000}: Sent): Promise<string> {
    const from = accounts[by]!.address
    const next = nonce ?? Number(await this.call('eth_getTransactionCount', [from, 'pending']))
    const fees = {maxFeePerGas: numberToHex(10n ** 11n), maxPriorityFeePerGas: numberToHex(10n ** 9n)}
    const more = {value: numberToHex(value), nonce: numberToHex(next), gas: numberToHex(gas), ...fees}
    return await this.call('eth_sendTransaction', [{from, to, data, ...more}])
  }

  async sendUsdc(to: string, amount: bigint, token = this.usdc): Promise<string> {
    return await this.send({
      to: token,
      data: encodeFunctionData({abi: abis.usdc, functionName: 'transfer', args: [to, amount]}),
    })
  }

  /** Calls the Multisend contract. */
  async multi(functionName: string, args: unknown[], value = 0n): Promise<string> {
    return await this.send({
      to: this.multisend,
      value,
      data: encodeFunctionData({abi: abis.multisend, functionName, args}),
    })
  }

  /** Pays `even` in a block of even height, `odd` in one of odd height, by an internal call at the same position. */
  async sendSwitched(even: {to: string; value: bigint}, odd: {to: string; value: bigint}): Promise<string> {
    const words = [BigInt(even.to), BigInt(odd.to), even.value, odd.value]
    const data: Hex = `0x${words.map(word => word.toString(16).padStart(64, '0')).join('')}`
    return await this.send({to: this.switch, value: even.value + odd.value, data})
  }

  /** The signed bytes of a transaction that is on the chain or in the mempool. */
  async raw(txid: string): Promise<string> {
    return await this.call('eth_getRawTransactionByHash', [txid])
  }

  async resend(raw: string): Promise<string> {
    return await this.call('eth_sendRawTransaction', [raw])
  }

  /**
   * Replaces the top `depth` blocks by as many others, which are empty but for `keep`: signed transactions by the index
   * of their new block, 0 being the lowest. All other transactions leave the mempool, too.
   */
  async reorg(depth: number, keep: Record<number, string[]> = {}): Promise<Head> {
    // Otherwise a block with the same content could get the same hash.
    await this.call('anvil_setCoinbase', [`0x${randomBytes(20).toString('hex')}`])
    const kept = Object.entries(keep).flatMap(([place, list]) => list.map(raw => [raw, Number(place)]))
    await this.call('anvil_reorg', [depth, kept])
    return await this.block()
  }

  async balance(address: string): Promise<bigint> {
    return BigInt(await this.call<Hex>('eth_getBalance', [address, 'latest']))
  }

  async tokenBalance(address: string, token = this.usdc): Promise<bigint> {
    const data = encodeFunctionData({abi: abis.usdc, functionName: 'balanceOf', args: [address]})
    return BigInt(await this.call<Hex>('eth_call', [{to: token, data}, 'latest']))
  }
}

// Pays one of two: recipients in words 0 and 1 of the call's data, amounts in words 2 and 3, chosen by NUMBER & 1.
//   PUSH 0 (4 times: no output, no input); amount: CALLDATALOAD(64 + 32 * (NUMBER & 1)); recipient: CALLDATALOAD(32 *
//   (NUMBER & 1));
//   GAS; CALL; STOP
const switchRuntime = '60006000600060004360011660051b604001354360011660051b355af100'
const switchCode: Hex = `0x601e600c600039601e6000f3${switchRuntime}` // copies the 30 bytes above

/**
 * The anvil binary itself. npm's `anvil` is a Node program around it, and killing that would leave the binary running.
 */
function binary(): string {
  const name = `@foundry-rs/anvil-${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}`
  const require = createRequire(createRequire(import.meta.url).resolve('@foundry-rs/anvil/package.json'))
  return path.join(path.dirname(require.resolve(`${name}/package.json`)), 'bin', 'anvil')
}
