// The first part of the story that the demo plays: deposits of every asset that become final, one that a reorganisation
// drops, and one that a reorganisation moves into another block. Promises: it ends when every deposit has its expected
// state and every expected webhook has arrived. If something is late or wrong, it throws an error that says what is
// missing.
import {PermanentError} from '../base/errors.ts'
import type {Sluice} from '../sdk/index.ts'
import {addressLines, type ChainCode, type Chains} from './chains.ts'
import type {Operator} from './operator.ts'
import type {Receiver} from './receiver.ts'
import type {Screen} from './screen.ts'
import {until} from './until.ts'

const pollMs = 250
/** Deposits at this depth are safe from the reorganisations. */
const safeConfirmations = 4
/** Blocks that may be mined between a look at a deposit and the reorganisation that takes it. */
const minedMeanwhile = 2
const mostTries = 5

export interface PlayedDeposit {
  chain: ChainCode
  token: string
  amount: string
  status: 'sending' | 'pending' | 'final' | 'reorged'
  txid: string
  confirmations: number
}

export interface Cast {
  /** The merchant's. */
  shop: Sluice
  operator: Operator
  receiver: Receiver
  chains: Chains
  screen: Screen
  /** The user's; the same on all EVM chains. */
  addresses: Record<ChainCode, string>
}

export class Story {
  readonly deposits: PlayedDeposit[] = []
  readonly #cast: Cast

  constructor(cast: Cast) {
    this.#cast = cast
  }

  async play(): Promise<void> {
    const {screen, chains, addresses} = this.#cast
    screen.say(`\n${screen.style('bold', 'Deposits')}  to the user's addresses\n\n${addressLines(addresses)}\n`)
    const ether = this.#announce('ETH', 'ETH', '1.5')
    const usdc = this.#announce('ETH', 'USDC', '250')
    const usdt = this.#announce('ETH', 'USDT', '120.5')
    const pol = this.#announce('POLYGON', 'POL', '40')
    const jpyc = this.#announce('POLYGON', 'JPYC', '30000')
    const bitcoin = this.#announce('BTC', 'BTC', '0.25')
    const tron = this.#announce('TRON', 'TRX', '75')
    const tether = this.#announce('TRON', 'USDT', '80')
    const solana = this.#announce('SOL', 'SOL', '3')
    const dollars = this.#announce('SOL', 'USDC', '60')
    await Promise.all(
      [[ether, usdc, usdt], [pol, jpyc], [bitcoin], [tron, tether], [solana, dollars]].map(deposits =>
        this.#sendAll(deposits),
      ),
    )
    const safe = [ether, usdc, usdt, pol, jpyc].map(deposit => () => deposit.confirmations >= safeConfirmations)
    await this.#until('the first deposits to be a few blocks deep', () => safe.every(isSafe => isSafe()))

    const dropped = await this.#shallow('ETH', 'ETH', '0.7')
    await chains.ETH.reorg(dropped.confirmations + minedMeanwhile)
    this.#say(`ETH: a reorganisation drops the ${name(dropped)}`)
    const moved = await this.#shallow('POLYGON', 'POL', '12.5')
    await chains.POLYGON.reorg(moved.confirmations + minedMeanwhile, {keepTransactions: true})
    this.#say(`POLYGON: a reorganisation moves the ${name(moved)} into another block`)

    await this.#until(`the ${name(dropped)} to be reorged`, () => dropped.status === 'reorged')
    const others = this.deposits.filter(deposit => deposit !== dropped)
    await this.#until('the other deposits to be final', () => others.every(({status}) => status === 'final'))
    await this.#until('every webhook', () => this.deposits.every(deposit => this.#missing(deposit).length === 0))
    screen.freeze()
    this.#check(dropped)
    if (this.#cast.receiver.typesOf('txid', moved.txid).includes('deposit.reorged'))
      this.#say(`The ${name(moved)} left the chain and came back: one deposit.reorged, one more deposit.pending`)
  }

  /**
   * A new deposit that a reorganisation can take, with a block on top of it: so one that moves is there again when
   * there are as many new blocks as there were old ones. Where the machine is so slow that it is nearly final when that
   * is seen, another one is sent: a reorganisation of final blocks halts a chain.
   */
  async #shallow(chain: ChainCode, token: string, amount: string): Promise<PlayedDeposit> {
    for (let tries = 0; tries < mostTries; tries++) {
      const deposit = this.#announce(chain, token, amount)
      await this.#send(deposit)
      await this.#until(`the ${name(deposit)} to have a block on top`, () => deposit.confirmations >= 2)
      if (deposit.confirmations + 2 * minedMeanwhile <= this.#cast.chains[chain].info.confirmations) return deposit
      this.#say(
        `This machine is slow: the ${name(deposit)} is too deep for a reorganisation already, and another one is sent`,
      )
    }
    throw new PermanentError('this machine is too slow to reorganise a chain before its blocks are final')
  }

  #announce(chain: ChainCode, token: string, amount: string): PlayedDeposit {
    const deposit: PlayedDeposit = {chain, token, amount, status: 'sending', txid: '', confirmations: 0}
    this.deposits.push(deposit)
    this.#draw()
    return deposit
  }

  /** One after the other. */
  async #sendAll(deposits: PlayedDeposit[]): Promise<void> {
    for (const deposit of deposits) await this.#send(deposit)
  }

  async #send(deposit: PlayedDeposit): Promise<void> {
    const {chain, token, amount} = deposit
    deposit.txid = await this.#cast.chains[chain].transfer({token, to: this.#cast.addresses[chain], amount})
  }

  /** Polls the API, and shows its response, until the condition holds. */
  async #until(what: string, condition: () => boolean): Promise<void> {
    await until(what, {screen: this.#cast.screen, pollMs}, async () => {
      await this.#refresh()
      return condition()
    })
  }

  async #refresh(): Promise<void> {
    const {items: seen} = await this.#cast.shop.deposits.list({limit: 50}).page()
    for (const deposit of this.deposits) {
      const now = seen.find(({txid}) => txid === deposit.txid)
      if (!now) continue
      const changed = now.status !== deposit.status
      Object.assign(deposit, {status: now.status, confirmations: now.confirmations})
      if (changed && !this.#cast.screen.isLive) this.#cast.screen.say(this.#line(deposit))
    }
    this.#draw()
  }

  // --- the output ---

  #draw(): void {
    const {screen} = this.#cast
    screen.live(
      this.deposits.map(deposit => this.#line(deposit)),
      line => line.replace(/\b(final|pending|reorged)\b/, status => screen.style(colours[status as Colour], status)),
    )
  }

  #line(deposit: PlayedDeposit): string {
    const {chain, status, txid} = deposit
    const webhooks = this.#cast.receiver.typesOf('txid', txid).map(type => type.replace('deposit.', ''))
    return [
      `  ${chain.padEnd(8)}`,
      name(deposit).padEnd(10),
      status.padEnd(8),
      this.#progress(deposit).padEnd(18),
      this.#cast.screen.isLive && webhooks.length ? `webhooks: ${webhooks.join(', ')}` : '',
    ]
      .join('  ')
      .trimEnd()
  }

  #progress({chain, status, confirmations}: PlayedDeposit): string {
    const needed = this.#cast.chains[chain].info.confirmations
    if (status === 'pending') return `${Math.min(confirmations, needed)}/${needed} confirmations`
    if (status === 'final') return `${needed} confirmations`
    return status === 'reorged' ? 'left the chain' : ''
  }

  #say(what: string): void {
    this.#cast.screen.say(`  ${this.#cast.screen.style('dim', what)}`)
  }

  // --- checks ---

  /** The expected events that are missing. */
  #missing({status, txid}: PlayedDeposit): string[] {
    const had = this.#cast.receiver.typesOf('txid', txid)
    return ['deposit.pending', status === 'final' ? 'deposit.confirmed' : 'deposit.reorged'].filter(
      type => !had.includes(type),
    )
  }

  /**
   * No event twice, and no deposit.reorged for a deposit that stayed, unless its removal was seen before its return.
   */
  #check(dropped: PlayedDeposit): void {
    for (const deposit of this.deposits) {
      const had = this.#cast.receiver.typesOf('txid', deposit.txid)
      const times = (type: string) => had.filter(other => other === `deposit.${type}`).length
      const away = times('reorged')
      const wrong =
        times('confirmed') > 1 ||
        times('pending') !== away + (deposit === dropped ? 0 : 1) ||
        (deposit === dropped && away !== 1)
      if (wrong) throw new Error(`the ${name(deposit)} had the events ${had.join(', ')}`)
    }
    const {rejected} = this.#cast.receiver
    if (rejected) throw new Error(`${rejected} webhooks had a wrong signature`)
  }
}

const colours = {final: 'green', pending: 'yellow', reorged: 'red'} as const
type Colour = keyof typeof colours

function name({amount, token}: PlayedDeposit): string {
  return `${amount} ${token}`
}
