// Pays on an EVM chain, and makes reorganisations. Each transaction is recorded with the effect that it has if it
// succeeds. At the end, the chain shows whether it succeeded.
import {setTimeout as sleep} from 'node:timers/promises'
import {type Abi, encodeFunctionData, erc20Abi, type Hex, keccak256} from 'viem'
import {generatePrivateKey, privateKeyToAddress} from 'viem/accounts'
import type {ChainCode} from '../../../chains/registry.ts'
import type {EvmClient} from '../../../devnet/evm/client.ts'
import {accounts, multisendAddress} from '../../../devnet/evm/constants.ts'
import contracts from '../../../devnet/evm/contracts.json' with {type: 'json'}
import {issuerOf} from '../../../devnet/evm/tokens.ts'
import type {Asset} from '../asset.ts'
import type {Cast} from '../family.ts'
import {freeze, type Issuer} from '../issuer.ts'
import type {Payer} from '../payer.ts'
import type {Payments} from '../payments.ts'
import type {Random} from '../random.ts'
import type {Service} from '../service.ts'
import type {Ours, Truth} from '../truth.ts'
import type {Users} from '../users.ts'
import {coinOf, localClient, type Token, tokensOf} from './tokens.ts'
import {type Moved, readTruth} from './truth.ts'

interface Sent {
  txid: string
  raw: Hex
  moves: Moved[]
  /** The earliest time at which it could be seen. */
  at: number
}

interface Planned {
  to: string
  value?: bigint
  data?: Hex
  moves: Moved[]
}

const firstInternal = 1_000_000
const deepest = 7 // the final block is the eighth below the head
const payers = [1, 2, 3, 4, 5, 6]
/** Of each token, in usual payments: the amount of each account, and of the treasury. */
const each = 1_000_000n
const float = 500n
const firstPayments = 30

export class EvmPayer implements Payer {
  readonly chain: ChainCode
  readonly #service: Service
  readonly #users: Users
  readonly #payments: Payments
  readonly #random: Random
  readonly #coin: Asset
  /** Set once it has begun. */
  #tokens: Token[] = []
  /** By txid: an identical payment with a nonce that is still free is the same transaction. */
  readonly #sent = new Map<string, Sent>()
  readonly counts: Record<string, number> = {}

  constructor(chain: ChainCode, {service, users, payments, random}: Cast) {
    this.chain = chain
    this.#service = service
    this.#users = users
    this.#payments = payments
    this.#random = random.fork(`payer ${chain}`)
    this.#coin = coinOf(chain)
  }

  #client(): Promise<EvmClient> {
    return localClient(this.chain, this.#service)
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1
  }

  /** Gives each paying account every token, and the Multisend contract the right to spend it. */
  async begin(treasury: string): Promise<void> {
    const client = await this.#client()
    this.#tokens = await tokensOf(client, this.#service)
    for (const {contract, usual} of this.#tokens) {
      const call = (functionName: 'transfer' | 'approve', to: string) => ({
        to: contract,
        data: encodeFunctionData({abi: erc20Abi, functionName, args: [to as Hex, each * usual]}),
      })
      for (const payer of payers) {
        await client.transact(call('transfer', accounts[payer]!.address))
        await client.submit(await this.#sign(client, payer, call('approve', multisendAddress)))
      }
    }
    await client.mine(1)
    for (let i = 0; i < firstPayments; i++) await this.#payOnce(client)
    await client.mine(deepest + 2)
    // Amounts too small to be swept are advanced from the operator's own tokens, or a payout that claims them would
    // wait for ever.
    for (const {contract, usual, isKnown} of this.#tokens)
      if (isKnown) await client.mined(await client.transact({to: contract, data: transfer(treasury, float * usual)}))
  }

  actors(stopped: AbortSignal): Promise<void>[] {
    const pick = {
      issuer: () => this.#issuerOf(this.#random.pick(this.#tokens)),
      address: () => this.#users.any(this.chain),
    }
    return [
      this.#pay(stopped),
      this.#reorganise(stopped),
      this.#hurry(stopped),
      freeze(this, {stopped, random: this.#random}, pick),
    ]
  }

  newAddress(): string {
    return privateKeyToAddress(generatePrivateKey())
  }

  /** Any payment: its block may have been replaced before it was indexed. */
  mayBeReorged(): boolean {
    return true
  }

  async truth(ours: Ours): Promise<Truth> {
    return await readTruth(await this.#client(), {
      coin: this.#coin,
      tokens: this.#tokens,
      sent: [...this.#sent.values()],
      ours,
    })
  }

  /** Mines more than one block a second, so that as much becomes final in a run of a minute as otherwise in three. */
  async #hurry(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      await sleep(500)
      await this.#client()
        .then(client => client.mine(1))
        .catch(() => {}) // the chain is down
    }
  }

  /**
   * Pays, sometimes several at once, until `stopped`. Never more than one at a time per account, so that nonces are in
   * order.
   */
  async #pay(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      try {
        const client = await this.#client()
        for (let i = this.#random.between(1, 3); i > 0; i--) await this.#payOnce(client)
      } catch {
        this.#count('sends that failed') // the chain is down; the next one tries again
      }
      await sleep(this.#random.between(20, 300))
    }
  }

  async #payOnce(client: EvmClient): Promise<void> {
    const {moves, ...transaction} = (this.#random.chance(0.3) && this.#payRequest()) || (await this.#payUser())
    const payer = this.#random.pick(payers)
    const raw = await this.#sign(client, payer, transaction)
    const txid = keccak256(raw)
    if (!this.#sent.has(txid)) this.#sent.set(txid, {txid, raw, moves, at: Date.now()})
    await client.submit(raw)
    this.#count('sent')
  }

  async #sign(
    client: EvmClient,
    payer: number,
    {to, value, data}: {to: string; value?: bigint; data?: Hex},
  ): Promise<Hex> {
    const account = accounts[payer]!
    return await account.signTransaction({
      type: 'eip1559',
      chainId: Number(await client.rpc('eth_chainId')),
      nonce: Number(await client.rpc('eth_getTransactionCount', [account.address, 'pending'])),
      gas: 500_000n,
      maxFeePerGas: 10n ** 11n,
      maxPriorityFeePerGas: 10n ** 9n,
      to: to as Hex,
      value,
      data,
    })
  }

  async #payUser(): Promise<Planned> {
    return this.#plan(this.#random.chance(0.35) ? await this.#users.fresh(this.chain) : this.#users.any(this.chain))
  }

  /** Mostly as requested; else in any token of this chain. */
  #payRequest(): Planned | undefined {
    const request = this.#payments.any(this.chain, this.#random)
    if (!request) return undefined
    const amounts = this.#payments.parts(request, this.#random)
    const isRight = request.asset.chain === this.chain && this.#random.chance(0.9)
    if (!isRight) this.#count('in any token')
    const token = isRight
      ? this.#tokens.find(({token}) => token === request.asset.token)
      : this.#random.pick([undefined, ...this.#tokens])
    this.#count(`of ${(token ?? this.#coin).token}`)
    return token ? this.#payTokens(token, request.address, amounts) : this.#payCoins(request.address, amounts)
  }

  #payCoins(to: string, amounts: bigint[]): Planned {
    const [value, ...more] = amounts as [bigint, ...bigint[]]
    const {token} = this.#coin
    if (more.length === 0) return {to, value, moves: [{outputIndex: 0, token, amount: value, address: to}]}
    const moves = amounts.map((amount, i) => ({outputIndex: firstInternal + 1 + i, token, amount, address: to}))
    const total = amounts.reduce((sum, amount) => sum + amount)
    return {to: multisendAddress, value: total, data: multisend('pay', [amounts.map(() => to), amounts]), moves}
  }

  #payTokens({contract, token}: Token, to: string, amounts: bigint[]): Planned {
    return {
      to: multisendAddress,
      data: multisend('payTokens', [contract, amounts.map(() => to), amounts]),
      moves: amounts.map((amount, i) => ({outputIndex: 1 + i, token, amount, address: to})),
    }
  }

  /** Further recipients of the same transaction. */
  #anybody(): string {
    const request = this.#random.chance(0.2) ? this.#payments.any(this.chain, this.#random) : undefined
    return request?.address ?? this.#users.any(this.chain)
  }

  #plan(to: string): Planned {
    const native = this.#coin.token
    const {contract, token, usual} = this.#random.pick(this.#tokens)
    const other = this.#anybody()
    const [a, b, c] = [this.#coins(), this.#coins(), this.#coins()]
    const [u, v] = [this.#random.amount(1n, usual), this.#random.amount(1n, usual)]
    const multi = (functionName: string, args: unknown[], value: bigint, moves: Moved[]): Planned => {
      return {to: multisendAddress, value, data: multisend(functionName, args), moves}
    }
    const at = (outputIndex: number, token: string, amount: bigint, address = to): Moved => {
      return {outputIndex, token, amount, address}
    }
    const plans: Record<keyof typeof weights, () => Planned> = {
      native: () => ({to: to, value: a, moves: [at(0, native, a)]}),
      token: () => ({to: contract, data: transfer(to, u), moves: [at(1, token, u)]}),
      many: () =>
        multi(
          'pay',
          [
            [to, other, to],
            [a, b, c],
          ],
          a + b + c,
          [at(firstInternal + 1, native, a), at(firstInternal + 2, native, b, other), at(firstInternal + 3, native, c)],
        ),
      tokens: () => multi('payTokens', [contract, [to, other], [u, v]], 0n, [at(1, token, u), at(2, token, v, other)]),
      selfdestruct: () => multi('payBySelfdestruct', [to], a, [at(firstInternal + 2, native, a)]),
      undone: () => multi('payAndRevertInside', [to], a, []),
      failed: () =>
        multi(
          'pay',
          [
            [to, other],
            [a, a + b],
          ],
          a,
          [],
        ),
      nothing: () => ({to: contract, data: transfer(to, 0n), moves: []}),
    }
    const kind = this.#random.weighted(weights)
    this.#count(kind)
    if (kind === 'token' || kind === 'tokens') this.#count(`of ${token}`)
    return plans[kind]()
  }

  /**
   * Of the native coin: amounts not worth moving, amounts that are, and sometimes more than the treasury can advance.
   */
  #coins(): bigint {
    const unit = {dust: 1n, usual: 10n ** 12n, large: 2n * 10n ** 13n}[
      this.#random.weighted({dust: 2, usual: 6, large: 2})
    ]
    return BigInt(this.#random.between(1, 1_000_000)) * unit
  }

  async lastHeight(): Promise<number | undefined> {
    const client = await this.#client()
    const {pending} = (await client.rpc('txpool_status')) as {pending: Hex}
    return Number(pending) === 0 ? (await client.head()).height : undefined
  }

  /** Replaces the newest blocks, now and then, until `stopped`; some of the dropped transactions are sent again. */
  async #reorganise(stopped: AbortSignal): Promise<void> {
    while (!stopped.aborted) {
      await sleep(this.#random.between(2000, 6000))
      if (stopped.aborted) return
      const depth = this.#random.between(1, deepest)
      const keepTransactions = this.#random.chance(0.4)
      try {
        const client = await this.#client()
        await client.reorg(depth, {keepTransactions})
        this.#count(keepTransactions ? 'reorgs that keep' : 'reorgs that drop')
        this.counts['deepest reorg'] = Math.max(this.counts['deepest reorg'] ?? 0, depth)
        if (!keepTransactions) await this.#sendAgain(client)
      } catch {
        this.#count('reorgs that failed')
      }
    }
  }

  #issuerOf({contract}: Token): Issuer {
    const {abi, isFrozen, freeze, free} = issuerOf(contract)
    const call = (functionName: string, address?: string) => {
      return {to: contract, data: encodeFunctionData({abi, functionName, args: address ? [address] : []})}
    }
    return {
      set: async (address, isOn) => {
        const functionName = address ? (isOn ? freeze : free) : isOn ? 'pause' : 'unpause'
        await (await this.#client()).transact(call(functionName, address))
      },
      isSet: async address => {
        const asked = call(address ? isFrozen : 'paused', address)
        return BigInt(String(await (await this.#client()).rpc('eth_call', [asked, 'latest']))) !== 0n
      },
      mine: async () => (await this.#client()).mine(1),
      bury: async () => (await this.#client()).mine(deepest + 1),
    }
  }

  async #sendAgain(client: EvmClient): Promise<void> {
    await sleep(this.#random.between(0, 2500)) // sometimes before the service sees the drop, sometimes after
    for (const {raw, txid} of [...this.#sent.values()].slice(-30)) {
      if (!this.#random.chance(0.7) || (await client.rpc('eth_getTransactionReceipt', [txid]))) continue
      const accepted = await client.submit(raw).then(
        () => true,
        () => false, // its nonce is used by now
      )
      if (accepted) this.#count('sent again')
    }
  }
}

const weights = {native: 30, token: 25, many: 12, tokens: 10, selfdestruct: 6, undone: 5, failed: 6, nothing: 6}

function transfer(to: string, value: bigint): Hex {
  return encodeFunctionData({abi: erc20Abi, functionName: 'transfer', args: [to as Hex, value]})
}

function multisend(functionName: string, args: unknown[]): Hex {
  return encodeFunctionData({abi: contracts.Multisend.abi as Abi, functionName, args})
}
