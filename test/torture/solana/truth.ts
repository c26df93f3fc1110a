// The truth of a local Solana chain, from the bytes of its transactions: what their instructions move. A node only says
// which of them failed, what they cost, and what our addresses hold.
import {getAddressDecoder} from '@solana/kit'
import {z} from 'zod'
import {associatedTokenProgram, systemProgram} from '../../../chains/solana/address.ts'
import type {SolanaClient} from '../../../devnet/solana/client.ts'
import {tokenCalled} from '../../../devnet/solana/tokens.ts'
import {parseTransaction, type Transaction} from '../../../devnet/solana/transaction.ts'
import {accountSize, tokenProgram, wrappedSol} from '../../support/solana/instructions.ts'
import type {Came, Ours, Truth} from '../truth.ts'

/** First bytes of instructions of the Token program. */
const [setAuthority, close, transferChecked, initialize] = [6, 9, 12, 18]

/** The tokens that the service knows. */
export const known = ['USDC', 'USDT'] as const
const codes = new Map<string, string>(known.map(token => [tokenCalled(token).mint, token]))

/** The place of a token account, among the keys of its transaction, is this much less than the place of the deposit. */
const tokenOffset = 1000

const Block = z.object({
  blockHeight: z.int(),
  blockhash: z.string(),
  blockTime: z.int(),
  transactions: z.array(
    z.object({
      transaction: z.tuple([z.string(), z.literal('base64')]),
      meta: z.object({err: z.unknown(), fee: z.int().transform(BigInt)}),
    }),
  ),
})

/** A transaction in a block. */
export interface Mined {
  txid: string
  /** It pays the fee. */
  payer: string
  hasFailed: boolean
  fee: bigint
  came: Came[]
}

export interface Chain {
  blocks: Map<number, string>
  mined: Mined[]
}

/** `made`: the time at which each transaction was made, by txid. */
export async function readChain(client: SolanaClient, made: Map<string, number>): Promise<Chain> {
  const blocks = new Map<number, string>()
  const mined: Mined[] = []
  const rent = BigInt(z.int().parse(await client.rpc('getMinimumBalanceForRentExemption', [accountSize])))
  const ledger = new TokenLedger()
  const slots = z.array(z.int()).parse(await client.rpc('getBlocks', [0, {commitment: 'confirmed'}]))
  const options = {commitment: 'confirmed', encoding: 'base64', maxSupportedTransactionVersion: 0, rewards: false}
  for (const slot of slots) {
    const block = Block.parse(await client.rpc('getBlock', [slot, options]))
    blocks.set(block.blockHeight, block.blockhash)
    for (const {transaction, meta} of block.transactions) {
      const parsed = parseTransaction(Buffer.from(transaction[0], 'base64'), () => undefined)
      const {txid, keys} = parsed
      const at = {txid, height: block.blockHeight, minedAt: 1000 * block.blockTime, madeAt: made.get(txid)}
      const hasFailed = meta.err !== null
      const tokens = hasFailed ? {came: [], made: 0} : ledger.read(parsed)
      const came = hasFailed ? [] : [...credited(parsed, rent), ...tokens.came].map(each => ({...at, ...each}))
      // Whoever pays the fee pays for the associated accounts that are made.
      mined.push({txid, payer: keys[0]!, hasFailed, fee: meta.fee + rent * BigInt(tokens.made), came})
    }
  }
  return {blocks, mined}
}

type Credit = Pick<Came, 'outputIndex' | 'address' | 'token' | 'amount'>

/**
 * Who owns which account of a token, and what each transaction brought to owners, by the instructions of all blocks.
 */
class TokenLedger {
  readonly #owners = new Map<string, string>()
  readonly #mints = new Map<string, string>()

  /** What came to owners, and how many associated accounts were made. */
  read({message, keys}: Transaction): {came: Credit[]; made: number} {
    const [gained, before] = [new Map<string, bigint>(), new Map(this.#owners)]
    let made = 0
    for (const {programAddressIndex, accountIndices = [], data: bytes = new Uint8Array()} of message.instructions) {
      const at = accountIndices.map(i => keys[i]!)
      const [program, data] = [keys[programAddressIndex]!, Buffer.from(bytes)]
      if (program === associatedTokenProgram && !this.#owners.has(at[1]!)) {
        made++
        this.#open(at[1]!, at[2]!, at[3]!)
      }
      if (program !== tokenProgram) continue
      if (data[0] === initialize) this.#open(at[0]!, getAddressDecoder().decode(data, 1), at[1]!)
      if (data[0] === setAuthority) this.#owners.set(at[0]!, getAddressDecoder().decode(data, 3))
      if (data[0] !== transferChecked) continue
      for (const [account, sign] of [
        [at[0]!, -1n],
        [at[2]!, 1n],
      ] as const)
        gained.set(account, (gained.get(account) ?? 0n) + sign * data.readBigUInt64LE(1))
    }
    const came = keys.flatMap((account, index): Credit[] => {
      const [amount, owner] = [gained.get(account) ?? 0n, this.#owners.get(account)]
      const token = codes.get(this.#mints.get(account) ?? '')
      if (amount <= 0n || owner === undefined || token === undefined) return []
      // An account that was there and gets another owner would bring more: none here does.
      if (before.has(account) && before.get(account) !== owner) throw new Error(`${account} changed its owner`)
      return [{outputIndex: tokenOffset + index, address: owner, token, amount}]
    })
    return {came, made}
  }

  #open(account: string, owner: string, mint: string): void {
    this.#owners.set(account, owner)
    this.#mints.set(account, mint)
  }
}

/**
 * What each account has more than before, and what the owners of new token accounts have. `rent`: what such an account
 * holds besides.
 */
function credited({message, keys}: Transaction, rent: bigint): Credit[] {
  const gained = new Map<string, bigint>()
  const owners = new Map<string, string>()
  const gain = (key: string, amount: bigint) => gained.set(key, (gained.get(key) ?? 0n) + amount)
  for (const {programAddressIndex, accountIndices = [], data: bytes = new Uint8Array()} of message.instructions) {
    const [from, to] = accountIndices.map(i => keys[i]!)
    const [program, data] = [keys[programAddressIndex]!, Buffer.from(bytes)]
    if (program !== systemProgram && program !== tokenProgram) continue
    const isClosing = program === tokenProgram && data[0] === close
    const amount = program === systemProgram ? data.readBigUInt64LE(4) : isClosing ? (gained.get(from!) ?? 0n) : 0n
    gain(from ?? '', -amount)
    gain(to ?? '', amount)
    if (isClosing) owners.delete(from!)
    if (program === tokenProgram && data[0] === initialize && to === wrappedSol)
      owners.set(from!, getAddressDecoder().decode(data, 1))
  }
  return keys.flatMap((address, outputIndex): Credit[] => {
    const amount = gained.get(address) ?? 0n
    const owner = owners.get(address)
    const coins = amount > 0n ? [{outputIndex, address, token: 'SOL', amount}] : []
    if (owner === undefined) return coins
    return [
      ...coins,
      {outputIndex: tokenOffset + outputIndex, address: owner, token: wrappedSol, amount: amount - rent},
    ]
  })
}

export async function readTruth(
  client: SolanaClient,
  {blocks, mined}: Chain,
  {addresses, treasury}: Ours,
): Promise<Truth> {
  const ours = [treasury, ...addresses]
  const deposits = mined.flatMap(({came}) => came).filter(({address}) => addresses.has(address))
  const held = new Map<string, bigint>()
  for (const address of ours)
    for (const token of ['SOL', ...known]) held.set(`${address} ${token}`, await client.balance(token, address))
  for (const {address, token, amount} of deposits.filter(({token}) => token === wrappedSol))
    held.set(`${address} ${token}`, (held.get(`${address} ${token}`) ?? 0n) + amount)
  const sent = mined.filter(({payer}) => payer === treasury || addresses.has(payer))
  const left = sent.flatMap(({came}) => came).filter(({address}) => address !== treasury)
  return {
    blocks,
    deposits,
    paid: left.map(({txid, address: to, token, amount}) => ({txid, to, token, amount})),
    held,
    fees: sent.reduce((sum, {fee}) => sum + fee, 0n),
    wrong: [],
  }
}
