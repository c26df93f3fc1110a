// The client of a local EVM chain. Besides the common functions it has transactions of the faucet, and contracts.
import {
  type Abi,
  encodeDeployData,
  encodeFunctionData,
  erc20Abi,
  getAddress,
  type Hex,
  isAddress,
  numberToHex,
} from 'viem'
import {generatePrivateKey, privateKeyToAddress} from 'viem/accounts'
import {z} from 'zod'
import {type Asset, chain as registered} from '../../chains/registry.ts'
import {askInfo, baseUnits, LocalClient, type Payment} from '../client.ts'
import {multisendAddress} from './constants.ts'
import contracts from './contracts.json' with {type: 'json'}
import {type LocalToken, tokens} from './tokens.ts'

const Receipt = z.looseObject({
  blockNumber: z.string().transform(Number),
  status: z.enum(['0x0', '0x1']),
  contractAddress: z.string().nullish(),
})
type Receipt = z.infer<typeof Receipt>

/**
 * A transaction of the faucet; value in wei, gas in units. With a given gas it is not tried first, and may then fail.
 */
export type Transaction = {to?: string; data?: Hex; value?: bigint; gas?: bigint}

export async function connect(url: string): Promise<EvmClient> {
  return new EvmClient(url, await askInfo(url))
}

export class EvmClient extends LocalClient<Receipt> {
  async transfer(payment: Payment): Promise<string> {
    return await this.transact(this.payment(payment))
  }

  /**
   * The transaction that pays; throws on an unknown token, a bad address, or an amount that the token cannot express.
   */
  payment({token, to, amount, feeRate}: Payment): Transaction {
    if (feeRate !== undefined) throw new Error(`a payment on ${this.chain} has no fee rate`)
    if (!isAddress(to)) throw new Error(`${to} is not an EVM address, or its capital letters are not its checksum`)
    const asset = this.asset(token)
    const value = baseUnits(amount, asset)
    if (!('contract' in asset)) return {to, value}
    const data = encodeFunctionData({abi: erc20Abi, functionName: 'transfer', args: [to, value]})
    return {to: asset.contract, data}
  }

  /** The native coin, and every token of the chain, whether a service knows it or not. */
  override get assets(): readonly (Asset | LocalToken)[] {
    return [registered(this.chain).assets[0], ...tokens]
  }

  /**
   * Sends a transaction of the faucet to the mempool, with the next nonce; the next block takes it. Resolves to the
   * txid.
   */
  async transact({to, data, value, gas}: Transaction): Promise<string> {
    return z.string().parse(await this.rpc('eth_sendTransaction', [{to, data, value: hex(value), gas: hex(gas)}]))
  }

  async submit(raw: string): Promise<string> {
    return z.string().parse(await this.rpc('eth_sendRawTransaction', [raw]))
  }

  /** The transaction that calls a function of the Multisend contract. */
  multisend(functionName: string, args: unknown[], value?: bigint): Transaction {
    const data = encodeFunctionData({abi: contracts.Multisend.abi as Abi, functionName, args})
    return {to: multisendAddress, data, value}
  }

  /**
   * Deploys a contract of devnet/evm/contracts from the faucet, such as a second, false USDC. Resolves to its address.
   */
  async deploy(name: keyof typeof contracts, args: unknown[]): Promise<string> {
    const {abi, bytecode} = contracts[name]
    const receipt = await this.mined(
      await this.transact({data: encodeDeployData({abi: abi as Abi, bytecode: bytecode as Hex, args})}),
    )
    return getAddress(z.string().parse(receipt.contractAddress))
  }

  protected async included(txid: string): Promise<Receipt | undefined> {
    const receipt = await this.rpc('eth_getTransactionReceipt', [txid])
    return receipt === null ? undefined : Receipt.parse(receipt)
  }

  async balance(token: string, address: string): Promise<bigint> {
    const asset = this.asset(token)
    if (!('contract' in asset)) return BigInt((await this.rpc('eth_getBalance', [address, 'latest'])) as Hex)
    const data = encodeFunctionData({abi: erc20Abi, functionName: 'balanceOf', args: [address as Hex]})
    return BigInt((await this.rpc('eth_call', [{to: asset.contract, data}, 'latest'])) as Hex)
  }

  newAddress(): string {
    return privateKeyToAddress(generatePrivateKey())
  }
}

function hex(value: bigint | undefined): Hex | undefined {
  return value === undefined ? undefined : numberToHex(value)
}
