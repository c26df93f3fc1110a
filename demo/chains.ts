// The local chains as the demo uses them, whatever their family: pay, reorganise, look what an address holds.
import {randomBytes} from 'node:crypto'
import path from 'node:path'
import {encodeFunctionData, erc20Abi, type Hex, parseUnits} from 'viem'
import {generatePrivateKey, privateKeyToAddress} from 'viem/accounts'
import {z} from 'zod'
import {addressOfScript} from '../chains/bitcoin/script.ts'
import {type BitcoinChain, chain as registered} from '../chains/registry.ts'
import {type BitcoinClient, connectBitcoin} from '../devnet/bitcoin/client.ts'
import {connect, type LocalChainClient} from '../devnet/evm/client.ts'
import {FINALIZED_DEPTH, USDC_ADDRESS} from '../devnet/evm/constants.ts'
import {readDevnet} from '../devnet/file.ts'

export const chainCodes = ['ETH', 'POLYGON', 'BTC'] as const
export type ChainCode = (typeof chainCodes)[number]

export interface DemoChain {
  /** A deposit is final when its block and those above it are so many. */
  confirmations: number
  /** Resolves to the txid: on Bitcoin before it is in a block, elsewhere once it is. */
  send(payment: {token: string; to: string; amount: string}): Promise<string>
  /** Replaces the newest blocks. */
  reorg(depth: number, options?: {keepTransactions?: boolean}): Promise<unknown>
  /** What an address holds of a token at the end of the chain, in base units. */
  held(token: string, address: string): Promise<bigint>
  /** Rejects where the chain does not know a transaction. */
  requireTransaction(txid: string): Promise<void>
}

/** Those that the service in this directory started. */
export async function openChains(home: string): Promise<Record<ChainCode, DemoChain>> {
  const rpcUrl = (code: ChainCode) => {
    const devnet = readDevnet(path.join(home, 'devnet', code.toLowerCase()))
    if (!devnet) throw new Error(`no local ${code} chain runs in ${home}`)
    return devnet.rpc_url
  }
  return {
    ETH: evm(await connect(rpcUrl('ETH'))),
    POLYGON: evm(await connect(rpcUrl('POLYGON'))),
    BTC: bitcoin(await connectBitcoin(rpcUrl('BTC'))),
  }
}

/** Addresses of somebody outside, one for each chain. */
export function newWallet(): Record<ChainCode, string> {
  const account = privateKeyToAddress(generatePrivateKey())
  const script = Buffer.concat([Buffer.from('0014', 'hex'), randomBytes(20)]) // P2WPKH, of a key that nobody needs here
  return {ETH: account, POLYGON: account, BTC: addressOfScript(script, regtest)!}
}

const {regtest} = (registered('BTC') as BitcoinChain).networks

function evm(client: LocalChainClient): DemoChain {
  return {
    confirmations: FINALIZED_DEPTH + 1,
    send: payment => client.send(payment),
    reorg: (depth, options) => client.reorg(depth, options),
    held: async (token, address) => {
      if (token !== 'USDC') return BigInt((await client.rpc('eth_getBalance', [address, 'latest'])) as Hex)
      const data = encodeFunctionData({abi: erc20Abi, functionName: 'balanceOf', args: [address as Hex]})
      return BigInt((await client.rpc('eth_call', [{to: USDC_ADDRESS, data}, 'latest'])) as Hex)
    },
    requireTransaction: async txid => {
      if ((await client.rpc('eth_getTransactionReceipt', [txid])) === null)
        throw new Error(`the ${client.chain} chain does not know ${txid}`)
    },
  }
}

const Balance = z.object({confirmed: z.string()})

function bitcoin(client: BitcoinClient): DemoChain {
  return {
    confirmations: regtest.confirmations,
    send: async ({to, amount}) => {
      const {txid} = await client.pay([{to, amount: parseUnits(amount, 8)}])
      return txid
    },
    reorg: (depth, options) => client.reorg(depth, options),
    held: async (_token, address) => BigInt(Balance.parse(await client.rpc('devnet_balance', [address])).confirmed),
    requireTransaction: async txid => void (await client.raw(txid)),
  }
}
