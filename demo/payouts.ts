// The last part of the story: every balance is paid out to a wallet that the operator has whitelisted, and one more
// payout goes to an address off the whitelist. Promises: it ends when the payments are final, their webhooks have come
// and the wallet holds exactly the net amounts, while the last payout still waits. If something is late, it throws an
// error that says what is missing.
import {formatUnits, parseUnits} from 'viem'
import type {PayoutItem} from '../sdk/index.ts'
import {addressLines, type ChainCode, chainCodes, newWallet} from './chains.ts'
import type {Cast} from './story.ts'
import {until} from './until.ts'

const pollMs = 100
/** Arrives while the others are paid; its payout goes to an address that is not on the whitelist. */
const late = {chain: 'POLYGON', token: 'POL', amount: '5'} as const

export interface PlayedPayout {
  chain: ChainCode
  token: string
  gross: string
  fee: string
  net: string
  status: PayoutItem['status']
  txid: string | null
  address: string
  /** How much the address's balance has grown. */
  arrived: string
}

interface Line {
  played: PlayedPayout
  id: string
  /** Its balance of the token when the payout was requested, in base units. */
  before: bigint
  seen: PayoutItem['status'][]
}

export class Payouts {
  readonly #cast: Cast
  readonly #lines: Line[] = []
  readonly #wallet: Record<ChainCode, string>
  readonly stranger: string

  constructor(cast: Cast) {
    this.#cast = cast
    this.#wallet = newWallet(cast.chains)
    this.stranger = cast.chains[late.chain].newAddress()
  }

  get played(): PlayedPayout[] {
    return this.#lines.map(({played}) => played)
  }

  async play(): Promise<void> {
    const {screen, shop, operator, chains, addresses} = this.#cast
    screen.say(
      `\n${screen.style('bold', 'Payouts')}  to addresses that the operator puts on the whitelist\n\n${addressLines(this.#wallet)}\n`,
    )
    for (const chain of chainCodes) {
      await shop.payoutAddresses.set({chain, address: this.#wallet[chain]})
      await operator.whitelist(chain, this.#wallet[chain])
    }
    const {balances} = await shop.balances.get()
    for (const {chain, token} of balances) await this.#request(chain, token, this.#wallet[chain])
    await chains[late.chain].transfer({...late, to: addresses[late.chain]})
    await this.#until(`the ${late.amount} ${late.token} to be final`, async () =>
      (await shop.balances.get()).balances.some(({chain, token}) => chain === late.chain && token === late.token),
    )
    await shop.payoutAddresses.set({chain: late.chain, address: this.stranger})
    await this.#request(late.chain, late.token, this.stranger)

    const paid = this.#lines.slice(0, -1)
    await this.#until('the payouts to be completed', async () =>
      paid.every(({played}) => played.status === 'completed'),
    )
    await this.#until('every webhook', async () =>
      paid.every(({id}) => this.#cast.receiver.typesOf('payout_id', id).includes('payout.completed')),
    )
    for (const line of paid) await this.#check(line)
    screen.freeze()
    const held = this.#lines.at(-1)!
    if (held.played.status !== 'pending') throw new Error(`the payout to a stranger is ${held.played.status}`)
    this.#say(`The last one goes to ${this.stranger}, which is not on the whitelist: nothing is signed for it`)
  }

  async #request(chain: ChainCode, token: string, address: string): Promise<void> {
    const {shop, chains} = this.#cast
    const before = await chains[chain].balance(token, address)
    const {id, status, gross, fee, net} = await shop.payouts.create({chain, token, sweep_first: chain === 'POLYGON'})
    const played: PlayedPayout = {chain, token, gross, fee, net, status, txid: null, address, arrived: '0'}
    this.#lines.push({played, id, before, seen: []})
    await this.#refresh()
  }

  async #until(what: string, condition: () => Promise<boolean>): Promise<void> {
    await until(what, {screen: this.#cast.screen, pollMs}, async () => {
      await this.#refresh()
      return await condition()
    })
  }

  async #refresh(): Promise<void> {
    const {shop, chains, screen} = this.#cast
    const {items} = await shop.payouts.list({limit: 50}).page()
    const now = new Map(items.map(payout => [payout.id, payout]))
    for (const line of this.#lines) {
      const {played, id, before, seen} = line
      const {status, txid} = now.get(id)!
      if (status === 'failed') throw new Error(`the payout of ${played.net} ${played.token} failed`)
      if (seen.at(-1) === status) continue
      seen.push(status)
      const arrived = (await chains[played.chain].balance(played.token, played.address)) - before
      Object.assign(played, {
        status,
        txid,
        arrived: formatUnits(arrived, chains[played.chain].asset(played.token).decimals),
      })
      if (!screen.isLive) screen.say(this.#show(line))
    }
    screen.live(
      this.#lines.map(line => this.#show(line)),
      text =>
        text.replace(/\b(completed|pending)\b/, status =>
          screen.style(status === 'pending' ? 'yellow' : 'green', status),
        ),
    )
  }

  // --- the output ---

  #show({played, seen}: Line): string {
    const {chain, token, net, status, txid, arrived} = played
    const how = status === 'completed' ? `the wallet has ${arrived} ${token} more, by ${txid!.slice(0, 10)}...` : ''
    const path = this.#cast.screen.isLive && seen.length > 1 && !how ? `after ${seen.slice(0, -1).join(', ')}` : ''
    return ['', chain.padEnd(8), `${net} ${token}`.padEnd(13), status.padEnd(9), how || path].join('  ').trimEnd()
  }

  #say(what: string): void {
    this.#cast.screen.say(`  ${this.#cast.screen.style('dim', what)}`)
  }

  // --- checks ---

  /** Exactly the net amount arrived, once, with one event. */
  async #check({played, id}: Line): Promise<void> {
    const {receiver, chains} = this.#cast
    const {decimals} = chains[played.chain].asset(played.token)
    if (parseUnits(played.arrived, decimals) !== parseUnits(played.net, decimals))
      throw new Error(`the payout of ${played.net} ${played.token} brought ${played.arrived}`)
    await chains[played.chain].mined(played.txid!)
    const types = receiver.typesOf('payout_id', id)
    if (types.join() !== 'payout.completed') throw new Error(`the payout ${id} had the events ${types.join(', ')}`)
  }
}
