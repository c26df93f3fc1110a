// A Solana node as the checks of nodes use it.
import {readFileSync} from 'node:fs'
import {getBase58Encoder} from '@solana/kit'
import {z} from 'zod'
import {caip2, chain as registered, type SolanaChain, solanaNetworks} from '../../../chains/registry.ts'
import {newAddress} from '../../../devnet/solana/client.ts'
import {addressOfKey, newKey} from '../../../devnet/solana/keys.ts'
import {parseTransaction, transactionWith, transfer} from '../../../devnet/solana/transaction.ts'
import {disguise} from '../node/disguise.ts'
import {
  type NodeFamily,
  type NodeOptions,
  type NodeUnderTest,
  type Output,
  refuseMainNetwork,
  type Signed,
} from '../node/node.ts'

const timeoutMs = 30_000
const sol = 1_000_000_000n
/** More than anybody has. */
const tooMuch = 10n ** 18n

const Latest = z.object({context: z.object({slot: z.int()}), value: z.object({blockhash: z.string()})})
const Block = z.object({blockHeight: z.int(), blockhash: z.string()})
const Statuses = z.object({
  value: z.tuple([z.object({slot: z.int(), confirmationStatus: z.string()}).nullable()]),
})
const Balance = z.object({value: z.int()})

export const solana: NodeFamily = {open}

async function open(options: NodeOptions): Promise<NodeUnderTest> {
  const {chain: code, environment} = options
  const chain = registered(code) as SolanaChain
  const key = keyOf(options.key)
  const payer = addressOfKey(key)
  const ask = askerOf(options.url)
  const genesis = await ask(z.string(), 'getGenesisHash')
  refuseMainNetwork(caip2('solana', genesis))
  const network = solanaNetworks.find(name => chain.networks[name].genesis === genesis)
  const node = network ? undefined : await disguise(options.url, body => genesisOfLocal(chain, body))
  const coin = {...chain.assets[0], usual: sol / 100n}
  const make = async (outputs: Output[], others: {key: Uint8Array; output: Output}[] = []): Promise<Signed> => {
    const {value} = await ask(Latest, 'getLatestBlockhash', [{commitment: 'confirmed'}])
    const transfers = [
      ...outputs.map(({to, amount}) => transfer(payer, to, amount)),
      ...others.map(({key, output: {to, amount}}) => transfer(addressOfKey(key), to, amount)),
    ]
    const raw = transactionWith(transfers, {key, on: value.blockhash, others: others.map(other => other.key)})
    const {txid} = parseTransaction(raw, () => undefined)
    return {txid, raw: Buffer.from(raw).toString('base64')}
  }
  const blockAt = async (slot: number) => {
    const {blockHeight: height, blockhash: hash} = await ask(Block, 'getBlock', [
      slot,
      {commitment: 'confirmed', transactionDetails: 'none', rewards: false, maxSupportedTransactionVersion: 0},
    ])
    return {height, hash}
  }
  return {
    settings: {
      [`${code}_NETWORK`]: environment[`${code}_NETWORK`] || (network ?? 'local'),
      [`${code}_RPC_URL`]: node?.url ?? options.url,
    },
    coin,
    tokens: {why: `${code} has no tokens`},
    float: sol / 10n,
    newAddress,
    async head() {
      const {context} = await ask(Latest, 'getLatestBlockhash', [{commitment: 'confirmed'}])
      return await blockAt(context.slot)
    },
    pay: output => make([output]),
    payMany: outputs => make(outputs),
    fail: output => make([output], [{key: newKey(), output: {...output, amount: tooMuch}}]),
    async submit({raw}) {
      await ask(z.string(), 'sendTransaction', [raw, {encoding: 'base64', skipPreflight: true}])
    },
    async placeOf({txid}) {
      const {value} = await ask(Statuses, 'getSignatureStatuses', [[txid], {searchTransactionHistory: true}])
      const [status] = value
      return status && status.confirmationStatus !== 'processed' ? await blockAt(status.slot) : undefined
    },
    async balance(address) {
      return BigInt((await ask(Balance, 'getBalance', [address, {commitment: 'confirmed'}])).value)
    },
    async stir() {}, // empty blocks come by themselves
    rewind: {why: 'no node of Solana takes blocks off'},
    async close() {
      node?.close()
    },
  }
}

type Ask = <T>(schema: z.ZodType<T>, method: string, params?: unknown[]) => Promise<T>

function askerOf(url: string): Ask {
  const Response = z.object({result: z.unknown(), error: z.object({message: z.string()}).optional()})
  return async (schema, method, params = []) => {
    const response = await fetch(url, {
      method: 'POST',
      headers: {'content-type': 'application/json'},
      body: JSON.stringify({jsonrpc: '2.0', id: 1, method, params}),
      signal: AbortSignal.timeout(timeoutMs),
    })
    const {result, error} = Response.parse(await response.json())
    if (error) throw new Error(`the node refused ${method}: ${error.message}`)
    return schema.parse(result)
  }
}

/** The service knows private networks by the first block of the local chain alone. */
function genesisOfLocal({networks}: SolanaChain, body: string): object | undefined {
  const {method, id} = z.object({method: z.string(), id: z.unknown()}).parse(JSON.parse(body))
  return method === 'getGenesisHash' ? {jsonrpc: '2.0', id, result: networks.local.genesis} : undefined
}

/** In base58, or in a file as solana-keygen writes it: 32 bytes, and as a rule 32 more of the public key. */
function keyOf(given: string): Uint8Array {
  const isFile = /[/.]/.test(given)
  const bytes = isFile ? readKeypair(given) : new Uint8Array(getBase58Encoder().encode(given))
  if (bytes.length !== 32 && bytes.length !== 64) throw new Error('the key must have 32 or 64 bytes')
  return bytes.slice(0, 32)
}

function readKeypair(file: string): Uint8Array {
  return Uint8Array.from(z.array(z.int().min(0).max(255)).parse(JSON.parse(readFileSync(file, 'utf8'))))
}
