// The one place where the node of an EVM chain is connected to.
import {RpcClient, type RpcClientOptions, RpcError} from '@subsquid/rpc-client'
import {z} from 'zod'
import type {NodeHead} from '../family.ts'
import type {EvmSettings} from './settings.ts'

export {RpcError}

/** Calls per request: public nodes refuse larger ones. */
const batchMax = 100

type Options = {timeoutMs: number} & Pick<RpcClientOptions, 'capacity' | 'retryAttempts'>

export function openRpc(url: string, {timeoutMs, ...options}: Options): RpcClient {
  return new RpcClient({url, requestTimeout: timeoutMs, maxBatchCallSize: batchMax, log: null, ...options})
}

/** An amount in hex, as nodes write it. */
export const quantity = z
  .string()
  .regex(/^0x[0-9a-f]*$/i)
  .transform(hex => (hex === '0x' ? 0n : BigInt(hex)))

export function openHead({rpcUrl}: EvmSettings, timeoutMs: number): NodeHead {
  const client = openRpc(rpcUrl!, {timeoutMs})
  return {
    height: async () => Number(quantity.parse(await client.call('eth_blockNumber'))),
    close: () => client.close(),
  }
}
