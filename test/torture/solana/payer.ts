// Pays on a Solana chain in each way that credits an account, lets slots be skipped and transactions expire, and
// replaces blocks.
import {getBase58Decoder, type Instruction} from '@solana/kit'
import {z} from 'zod'
import type {ChainCode} from '../../../chains/registry.ts'
import {connect, newAddress, type SolanaClient} from '../../../devnet/solana/client.ts'
import {faucet, faucetKey, finalLag} from '../../../devnet/solana/constants.ts'
import {addressOfKey, newKey} from '../../../devnet/solana/keys.ts'
import {accountOf, tokenCalled, tokenPayment} from '../../../devnet/solana/tokens.ts'
import {transactionWith, transfer} from '../../../devnet/solana/transaction.ts'
import {
  closeTokenAccount,
  createTokenAccount,
  initializeTokenAccount,
  setAuthority,
  transferTokens,
} from '../../support/solana/instructions.ts'
import type {Cast} from '../family.ts'
import {often, type Payer} from '../payer.ts'
import type {Requested} from '../payments.ts'
import type {Ours, Truth} from '../truth.ts'
import {known, readChain, readTruth} from './truth.ts'

const usdc = tokenCalled('USDC')
const deepest = 20 // the finalized block is the 31st below the newest
const sol = 1_000_000_000n
/** No transaction lives for as many blocks. */
const lifetime = 151
/** More than an account without data must hold, and less than one of a token must. */
const small = 1_000_000n
/** More than anybody has. */
const tooMuch = 10n ** 18n
const firstPayments = 8

const Latest = z.object({value: z.object({blockhash: z.string()})})

const weights = {
  'plain payments': 5,
  'of several transfers': 3,
  'of two signers': 2,
  'by closing an account': 2,
  'in USDC': 4,
  'in USDT': 1,
  'of accounts of USDC that change their owner': 1,
  'in wrapped SOL': 1,
  'that fail': 1,
}
/** What becomes of a transaction of the service while it waits. */
const fates = {'ours waits': 5, 'ours expires': 3, 'ours is forgotten': 2}

interface Planned {
  instructions: Instruction[]
  /** The keys that sign besides the faucet's. */
  others?: Uint8Array[]
}

const inToken = (token: string, to: string, amount: bigint): Planned => {
  return {instructions: tokenPayment(tokenCalled(token), {from: faucet, to, amount})}
}

/** A new account, of wrapped SOL by default. It signs, as does the faucet. */
const open = (at: string, lamports: bigint, owner: string, mint?: string): Instruction[] => [
  createTokenAccount(faucet, at, lamports),
  initializeTokenAccount(at, owner, mint),
]

/** A new account of the faucet's gets so much of USDC, and then another owner. */
const given = (at: string, to: string, amount: bigint): Instruction[] => [
  ...open(at, 3_000_000n, faucet, usdc.mint),
  transferTokens(usdc, {from: accountOf(usdc, faucet), to: at, owner: faucet, amount}),
  setAuthority(at, 'owner of the account', {from: faucet, to}),
]

export class SolanaPayer implements Payer {
  readonly chain: ChainCode
  readonly #cast: Cast
  readonly #second = newKey()
  /** The time at which each was made, by txid. */
  readonly #made = new Map<string, number>()
  readonly counts: Record<string, number> = {}

  constructor(chain: ChainCode, cast: Cast) {
    this.chain = chain
    this.#cast = {...cast, random: cast.random.fork(`payer ${chain}`)}
  }

  async #client(): Promise<SolanaClient> {
    return await connect(this.#cast.service.controlUrl(this.chain))
  }

  async begin(treasury: string): Promise<void> {
    const client = await this.#client()
    const give = (to: string, amount: string) => client.transfer({token: 'SOL', to, amount})
    await give(addressOfKey(this.#second), '100000')
    await give(treasury, '1000') // for payouts of what is too little to be swept
    await client.mine(finalLag + 1)
    // Amounts too small to be swept are advanced from the operator's own.
    for (const token of known) await client.transfer({token, to: treasury, amount: '50000'})
    await client.mine(finalLag + 1)
    for (let i = 0; i < firstPayments; i++) await this.#pay(client)
    await client.mine(finalLag + 1)
  }

  actors(stopped: AbortSignal): Promise<void>[] {
    const {random} = this.#cast
    const each = (what: string, mostMs: number, work: (client: SolanaClient) => Promise<unknown>) =>
      often(this, what, {stopped, random, mostMs}, async () => work(await this.#client()))
    return [
      each('payments', 400, client => this.#pay(client)),
      each('blocks', 1000, client => client.mine(1, {skip: random.chance(0.4) ? random.between(1, 8) : 0})),
      each('empty blocks', 15_000, client => client.mine(random.between(1, lifetime + 30), {only: []})),
      each('looks at what waits', 200, client => this.#lose(client)),
      each('reorgs', 8000, client => client.reorg(this.#depth(), {keepTransactions: random.chance(0.5)})),
    ]
  }

  /** Most are small: a transaction that names a replaced block is invalid. */
  #depth(): number {
    const {random} = this.#cast
    return random.between(1, random.chance(0.3) ? deepest : 3)
  }

  async #lose(client: SolanaClient): Promise<void> {
    const ours = (await client.waiting()).filter(txid => !this.#made.has(txid))
    if (!ours.length) return
    const fate = this.#cast.random.weighted(fates)
    this.#count(fate)
    if (fate === 'ours is forgotten') await client.forget(ours)
    if (fate === 'ours expires') await client.mine(lifetime, {only: []})
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }

  async #pay(client: SolanaClient): Promise<void> {
    const {random, users, payments} = this.#cast
    const request = random.chance(0.3) ? payments.any(this.chain, random) : undefined
    if (!request) return await this.#send(client, this.#plan(users.any(this.chain), this.#amount()))
    for (const amount of payments.parts(request, random)) await this.#send(client, this.#planOf(request, amount))
  }

  /** Mostly as requested; else in another asset. */
  #planOf({address, asset}: Requested, amount: bigint): Planned {
    const isRight = asset.chain === this.chain && this.#cast.random.chance(0.9)
    const token = isRight ? asset.token : asset.token === 'SOL' ? 'USDC' : 'SOL'
    this.#count(`requests ${isRight ? '' : 'wrongly '}paid in ${token}`)
    return token === 'SOL' ? this.#plan(address, amount) : inToken(token, address, amount)
  }

  /** Some are less than a new account takes. */
  #amount(): bigint {
    const {random} = this.#cast
    if (random.chance(0.2)) return random.amount(1n, small)
    return random.amount(small, random.chance(0.3) ? 20n * sol : sol / 2n)
  }

  #plan(to: string, amount: bigint): Planned {
    const way = this.#cast.random.weighted(weights)
    this.#count(way)
    const [part, second, opened] = [amount / 3n, addressOfKey(this.#second), newKey()]
    const at = addressOfKey(opened)
    const plans: Record<keyof typeof weights, () => Planned> = {
      'plain payments': () => ({instructions: [transfer(faucet, to, amount)]}),
      'of several transfers': () => ({
        instructions: [
          transfer(faucet, to, amount - part),
          transfer(faucet, newAddress(), small),
          transfer(faucet, to, part),
        ],
      }),
      'of two signers': () => ({
        instructions: [transfer(faucet, to, amount - part), transfer(second, to, part)],
        others: [this.#second],
      }),
      'by closing an account': () => ({
        instructions: [...open(at, amount, faucet), closeTokenAccount(at, to, faucet)],
        others: [opened],
      }),
      'in USDC': () => inToken('USDC', to, amount / 1000n + 1n),
      'in USDT': () => inToken('USDT', to, amount / 1000n + 1n),
      'of accounts of USDC that change their owner': () => ({
        instructions: given(at, to, amount / 1000n + 1n),
        others: [opened],
      }),
      'in wrapped SOL': () => ({
        instructions: open(at, 2n * small + amount, to),
        others: [opened],
      }),
      'that fail': () => ({
        instructions: [transfer(faucet, to, amount), transfer(second, to, tooMuch)],
        others: [this.#second],
      }),
    }
    return plans[way]()
  }

  /** Sometimes it names the newest block, which a reorganisation may replace. */
  async #send(client: SolanaClient, {instructions, others}: Planned): Promise<void> {
    const commitment = this.#cast.random.chance(0.8) ? 'finalized' : 'confirmed'
    const {value} = Latest.parse(await client.rpc('getLatestBlockhash', [{commitment}]))
    const raw = transactionWith(instructions, {key: faucetKey, on: value.blockhash, ...(others && {others})})
    this.#made.set(getBase58Decoder().decode(raw.subarray(1, 65)), Date.now())
    const options = {encoding: 'base64', skipPreflight: true}
    await client.rpc('sendTransaction', [Buffer.from(raw).toString('base64'), options])
  }

  newAddress = newAddress

  mayBeReorged = () => true

  async lastHeight(): Promise<number> {
    const client = await this.#client()
    const {height} = await client.mine(1)
    await client.mine(finalLag)
    return height
  }

  async truth(ours: Ours): Promise<Truth> {
    const client = await this.#client()
    const chain = await readChain(client, this.#made)
    const known = new Map(chain.mined.map(each => [each.txid, each]))
    const failed = [...this.#made.keys()].map(txid => known.get(txid)?.hasFailed)
    this.counts['in no block'] = failed.filter(each => each === undefined).length
    this.counts['failed in a block'] = failed.filter(each => each).length
    return await readTruth(client, chain, ours)
  }
}
