// An EVM node as the checks of nodes use it. Before the service starts, the funded account deploys a token with
// EIP-3009 and the contract that pays several addresses at once (devnet/evm/contracts). Gas is estimated, because it is
// not the same under every fork's rules.
import {
  type Abi,
  encodeDeployData,
  encodeFunctionData,
  erc20Abi,
  getAddress,
  type Hex,
  keccak256,
  numberToHex,
} from 'viem'
import {generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount, privateKeyToAddress} from 'viem/accounts'
import {z} from 'zod'
import {type Question, Questions, quantity} from '../../../chains/evm/client.ts'
import {caip2, chain as registered} from '../../../chains/registry.ts'
import contracts from '../../../devnet/evm/contracts.json' with {type: 'json'}
import {deployment, type LocalToken, tokenEntry} from '../../../devnet/evm/tokens.ts'
import {until} from '../../support/until.ts'
import {
  type Asset,
  type NodeFamily,
  type NodeOptions,
  type NodeUnderTest,
  type Output,
  refuseMainNetwork,
  type Signed,
} from '../node/node.ts'

const timeoutMs = 30_000
/** The code of JSON-RPC. */
const methodNotFound = -32_601
const deployedTimeoutMs = 600_000
const ether = 10n ** 18n
/** What a call of the contract needs at most, under any rules. */
const failingGas = 1_000_000n

const common = {displayName: 'A token of the checks', decimals: 6, smallest: '1', contract: '0x'} as const
/** One for each way of sweeping; the second has Tether's manners. */
const tokens: (LocalToken & {usual: bigint})[] = [
  {
    ...common,
    enteredOn: [],
    token: 'CHECK',
    sweep: {by: 'eip3009', domain: {name: 'CHECK', version: '2'}},
    usual: 25_000_001n,
  },
  {...common, enteredOn: [], token: 'CHECKT', sweep: {by: 'fund'}, usual: 26_000_001n},
]

const Header = z.object({number: quantity, hash: z.string(), baseFeePerGas: quantity})
const Receipt = z
  .object({blockNumber: quantity, blockHash: z.string(), contractAddress: z.string().nullish()})
  .nullable()

interface Call {
  to?: string
  value?: bigint
  data?: Hex
  /** Absent: estimated. */
  gas?: bigint
}

export const evm: NodeFamily = {
  async open(options) {
    const account = new Account(new EvmRpc(options.url), privateKeyToAccount(hexKey(options.key)))
    await account.begin()
    refuseMainNetwork(caip2('eip155', account.chainId))
    return await open(account, options)
  },
}

async function open(account: Account, options: NodeOptions): Promise<NodeUnderTest> {
  const {chain, environment} = options
  const {rpc} = account
  const [multisend, ...deployed] = await account.deploy([
    encodeDeployData({abi: contracts.Multisend.abi as Abi, bytecode: contracts.Multisend.bytecode as Hex}),
    ...tokens.map(token => deployment(token, account.address)),
  ])
  const here = tokens.map((token, i) => ({...token, contract: deployed[i]!}))
  const contractOf = (asset: Asset) => here.find(({token}) => token === asset.token)!.contract
  const stirring = new Account(rpc, privateKeyToAccount(keccak256(hexKey(options.key)))) // the same in every run
  const pay = (outputs: Output[], value: bigint, gas?: bigint) => {
    const args = [outputs.map(({to}) => to), outputs.map(({amount}) => amount)]
    const data = encodeFunctionData({abi: contracts.Multisend.abi as Abi, functionName: 'pay', args})
    return account.sign({to: multisend, value, data, gas})
  }
  const sum = (outputs: Output[]) => outputs.reduce((total, {amount}) => total + amount, 0n)
  const coin = {...registered(chain).assets[0], usual: ether / 500n}
  return {
    settings: {
      [`${chain}_RPC_URL`]: options.url,
      [`${chain}_CHAIN_ID`]: String(account.chainId),
      [`${chain}_TOKENS`]: JSON.stringify([
        ...JSON.parse(environment[`${chain}_TOKENS`] || '[]'),
        ...here.map(token => tokenEntry(chain, token)),
      ]),
    },
    coin,
    tokens: here,
    float: ether / 50n,
    newAddress: () => privateKeyToAddress(generatePrivateKey()),
    async head() {
      const {number, hash} = await rpc.ask(Header, 'eth_getBlockByNumber', ['latest', false])
      return {height: Number(number), hash}
    },
    pay: ({to, amount}, asset) =>
      account.sign(asset === coin ? {to, value: amount} : {to: contractOf(asset), data: transfer(to, amount)}),
    payMany: ['debug', 'trace'].includes(environment[`${chain}_TRACES`] ?? '')
      ? outputs => pay(outputs, sum(outputs))
      : {why: `${chain}_TRACES is off`},
    fail: output => pay([output, output], output.amount, failingGas),
    submit: signed => account.submit(signed),
    placeOf: signed => account.placeOf(signed),
    async balance(address, asset) {
      if (asset === coin) return await rpc.ask(quantity, 'eth_getBalance', [address, 'latest'])
      const data = encodeFunctionData({abi: erc20Abi, functionName: 'balanceOf', args: [address as Hex]})
      return await rpc.ask(quantity, 'eth_call', [{to: contractOf(asset), data}, 'latest'])
    },
    async stir() {
      const funds = await rpc.ask(quantity, 'eth_getBalance', [stirring.address, 'latest'])
      const isFunded = funds > ether / 1000n
      if (isFunded) await stirring.begin() // blocks with its transactions may be gone
      const by = isFunded ? stirring : account
      await by.submit(await by.sign({to: stirring.address, value: isFunded ? 0n : ether / 100n}))
    },
    rewind: await rewind(rpc, options),
    async close() {
      rpc.close()
    },
  }
}

/** A node that has the method refuses a block of the far future with another error than one that lacks it. */
async function rewind(rpc: EvmRpc, {mayReorganise}: NodeOptions): Promise<NodeUnderTest['rewind']> {
  if (!mayReorganise) return {why: '--may-reorganise is not given'}
  const [response] = await rpc.responses([{method: 'debug_setHead', params: [numberToHex(2 ** 40)]}])
  if ('message' in response! && response.code === methodNotFound) return {why: 'the node has no debug_setHead'}
  return async height => void (await rpc.ask(z.null(), 'debug_setHead', [numberToHex(height)]))
}

/** An account whose key is here. */
class Account {
  readonly rpc: EvmRpc
  readonly #key: PrivateKeyAccount
  #nonce = 0
  chainId = 0

  constructor(rpc: EvmRpc, key: PrivateKeyAccount) {
    this.rpc = rpc
    this.#key = key
  }

  get address(): Hex {
    return this.#key.address
  }

  /** Reads its next nonce from the node. */
  async begin(): Promise<void> {
    this.chainId = Number(await this.rpc.ask(quantity, 'eth_chainId', []))
    this.#nonce = Number(await this.rpc.ask(quantity, 'eth_getTransactionCount', [this.address, 'pending']))
  }

  async sign(call: Call): Promise<Signed> {
    const {baseFeePerGas} = await this.rpc.ask(Header, 'eth_getBlockByNumber', ['latest', false])
    const tip = await this.rpc.ask(quantity, 'eth_maxPriorityFeePerGas', [])
    const gas = call.gas ?? (await this.#estimate(call))
    const raw = await this.#key.signTransaction({
      type: 'eip1559',
      chainId: this.chainId,
      nonce: this.#nonce++,
      maxFeePerGas: 2n * baseFeePerGas + tip,
      maxPriorityFeePerGas: tip,
      gas,
      to: call.to as Hex | undefined,
      value: call.value,
      data: call.data,
    })
    return {txid: keccak256(raw), raw}
  }

  async #estimate({to, value = 0n, data}: Call): Promise<bigint> {
    const call = {from: this.address, to, value: numberToHex(value), data}
    return ((await this.rpc.ask(quantity, 'eth_estimateGas', [call])) * 5n) / 4n
  }

  /** A node that has it already says so with an error. */
  async submit({txid, raw}: Signed): Promise<void> {
    const [response] = await this.rpc.responses([{method: 'eth_sendRawTransaction', params: [raw]}])
    if (!('message' in response!)) return
    const known = await this.rpc.ask(z.unknown(), 'eth_getTransactionByHash', [txid])
    if (!known) throw new Error(`the node refused a transaction: ${response.message}`)
  }

  async placeOf({txid}: Signed): Promise<{height: number; hash: string} | undefined> {
    const receipt = await this.rpc.ask(Receipt, 'eth_getTransactionReceipt', [txid])
    return receipt ? {height: Number(receipt.blockNumber), hash: receipt.blockHash} : undefined
  }

  /** Deploys contracts, and resolves to their addresses. */
  async deploy(codes: Hex[]): Promise<Hex[]> {
    const all = []
    for (const data of codes) {
      const signed = await this.sign({data})
      await this.submit(signed)
      all.push(signed)
    }
    return await Promise.all(all.map(signed => this.#deployed(signed)))
  }

  async #deployed({txid}: Signed): Promise<Hex> {
    const receipt = await until(() => this.rpc.ask(Receipt, 'eth_getTransactionReceipt', [txid]), {
      timeoutMs: deployedTimeoutMs,
      intervalMs: 500,
      what: `the contract that ${txid} deploys`,
    })
    return getAddress(receipt.contractAddress!)
  }
}

class EvmRpc {
  readonly #questions: Questions

  constructor(url: string) {
    this.#questions = new Questions(url, timeoutMs)
  }

  responses(questions: Question[]) {
    return this.#questions.ask(questions)
  }

  async ask<T>(schema: z.ZodType<T>, method: string, params: unknown[]): Promise<T> {
    const [response] = await this.responses([{method, params}])
    if ('message' in response!) throw new Error(`the node refused ${method}: ${response.message}`)
    return schema.parse(response!.result ?? null)
  }

  close(): void {
    this.#questions.close()
  }
}

function transfer(to: string, amount: bigint): Hex {
  return encodeFunctionData({abi: erc20Abi, functionName: 'transfer', args: [to as Hex, amount]})
}

function hexKey(key: string): Hex {
  if (!/^(0x)?[0-9a-f]{64}$/i.test(key)) throw new Error('the key must be 64 hex digits')
  return key.startsWith('0x') ? (key as Hex) : `0x${key}`
}
