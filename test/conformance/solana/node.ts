// A Solana node as the checks of nodes use it.
import {readFileSync} from 'node:fs'
import {address, getBase58Encoder, type Instruction} from '@solana/kit'
import {
  getCreateAssociatedTokenIdempotentInstruction,
  getInitializeMint2Instruction,
  getMintToInstruction,
} from '@solana-program/token'
import {z} from 'zod'
import {caip2, chain as registered, type SolanaChain, solanaNetworks} from '../../../chains/registry.ts'
import {tokenProgram} from '../../../chains/solana/address.ts'
import {newAddress} from '../../../devnet/solana/client.ts'
import {addressOfKey, newKey} from '../../../devnet/solana/keys.ts'
import {accountOf, signer, tokenPayment} from '../../../devnet/solana/tokens.ts'
import {createAccount, parseTransaction, transactionWith, transfer} from '../../../devnet/solana/transaction.ts'
import {until} from '../../support/until.ts'
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
  const sign = async (instructions: Instruction[], others: Uint8Array[] = []): Promise<Signed> => {
    const {value} = await ask(Latest, 'getLatestBlockhash', [{commitment: 'confirmed'}])
    const raw = transactionWith(instructions, {key, on: value.blockhash, others})
    const {txid} = parseTransaction(raw, () => undefined)
    return {txid, raw: Buffer.from(raw).toString('base64')}
  }
  const make = (outputs: Output[], others: {key: Uint8Array; output: Output}[] = []): Promise<Signed> => {
    const transfers = [
      ...outputs.map(({to, amount}) => transfer(payer, to, amount)),
      ...others.map(({key, output: {to, amount}}) => transfer(addressOfKey(key), to, amount)),
    ]
    return sign(
      transfers,
      others.map(other => other.key),
    )
  }
  const submit = async ({raw}: Signed) => {
    await ask(z.string(), 'sendTransaction', [raw, {encoding: 'base64', skipPreflight: true}])
  }
  const blockAt = async (slot: number) => {
    const {blockHeight: height, blockhash: hash} = await ask(Block, 'getBlock', [
      slot,
      {commitment: 'confirmed', transactionDetails: 'none', rewards: false, maxSupportedTransactionVersion: 0},
    ])
    return {height, hash}
  }
  const placeOf = async ({txid}: Signed) => {
    const {value} = await ask(Statuses, 'getSignatureStatuses', [[txid], {searchTransactionHistory: true}])
    const [status] = value
    return status && status.confirmationStatus !== 'processed' ? await blockAt(status.slot) : undefined
  }
  const token = newToken()
  const making = await sign(makeToken(token, payer, await ask(z.int(), 'getMinimumBalanceForRentExemption', [82])), [
    token.key,
  ])
  await submit(making)
  await until(() => placeOf(making), {timeoutMs: 60_000, what: 'the mint'})
  return {
    settings: {
      [`${code}_${token.token}_CONTRACT`]: token.mint,
      [`${code}_NETWORK`]: environment[`${code}_NETWORK`] || (network ?? 'local'),
      [`${code}_RPC_URL`]: node?.url ?? options.url,
    },
    coin,
    tokens: [token],
    float: sol / 10n,
    newAddress,
    async head() {
      const {context} = await ask(Latest, 'getLatestBlockhash', [{commitment: 'confirmed'}])
      return await blockAt(context.slot)
    },
    pay: (output, asset) => (asset === coin ? make([output]) : sign(tokenPayment(token, {from: payer, ...output}))),
    payMany: outputs => make(outputs),
    fail: output => make([output], [{key: newKey(), output: {...output, amount: tooMuch}}]),
    submit,
    placeOf,
    async balance(address, asset) {
      if (asset !== coin) return await tokenBalance(ask, token, address)
      return BigInt((await ask(Balance, 'getBalance', [address, {commitment: 'confirmed'}])).value)
    },
    async stir() {}, // empty blocks come by themselves
    rewind: {why: 'no node of Solana takes blocks off'},
    async close() {
      node?.close()
    },
  }
}

/** A token of this run's own: whoever pays makes all of it. */
function newToken() {
  const key = newKey()
  return {key, mint: addressOfKey(key), token: 'USDC', decimals: 6, program: tokenProgram, usual: 5_000_000n}
}
type NewToken = ReturnType<typeof newToken>

/** The payer and the key of the mint sign. */
function makeToken(token: NewToken, payer: string, rent: number): Instruction[] {
  const [mint, owner] = [address(token.mint), address(payer)]
  const its = accountOf(token, payer)
  return [
    createAccount(payer, token.mint, {lamports: BigInt(rent), bytes: 82, owner: token.program}),
    getInitializeMint2Instruction({mint, decimals: token.decimals, mintAuthority: owner}),
    getCreateAssociatedTokenIdempotentInstruction({payer: signer(payer), ata: address(its), owner, mint}),
    getMintToInstruction({mint, token: address(its), mintAuthority: signer(payer), amount: 10n ** 15n}),
  ]
}

async function tokenBalance(ask: Ask, token: NewToken, owner: string): Promise<bigint> {
  const Accounts = z.object({
    value: z.array(z.object({account: z.object({data: z.tuple([z.string(), z.literal('base64')])})})),
  })
  const {value} = await ask(Accounts, 'getTokenAccountsByOwner', [
    owner,
    {mint: token.mint},
    {commitment: 'confirmed', encoding: 'base64'},
  ])
  return value.reduce((sum, {account: {data}}) => sum + Buffer.from(data[0], 'base64').readBigUInt64LE(64), 0n)
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
