// Between deposits and payouts: the shop requests a payment, and a customer, who is no user of it, pays the payment
// URI. Promises: it ends when GET /payments has the payment. If that takes too long or differs, it throws an error that
// says what is missing.
import {randomBytes} from 'node:crypto'
import {facts} from '../cli/output.ts'
import type {PaymentRequestState} from '../sdk/index.ts'
import type {Cast} from './story.ts'
import {until} from './until.ts'

const pollMs = 100
const currency = 'BTC'
const amount = '0.05'

export interface PlayedPayment {
  currency: string
  amount: string
  /** In the order of their appearance. */
  statuses: string[]
  amount_received: string
  txid: string | null
}

export class Payment {
  readonly #cast: Cast
  readonly played: PlayedPayment = {currency, amount, statuses: [], amount_received: '0', txid: null}
  /** The last line shown. */
  #said = ''

  constructor(cast: Cast) {
    this.#cast = cast
  }

  async play(): Promise<void> {
    const {screen, shop, chains} = this.#cast
    const externalId = `demo-order-${randomBytes(3).toString('hex')}`
    const {payment_uri, payment_url} = await shop.paymentRequests.create(currency, {external_id: externalId, amount})
    screen.say(
      `\n${screen.style('bold', 'Payment request')}  ${externalId}, over ${amount} ${currency}, for anybody to pay\n`,
    )
    screen.say(facts({'  page': payment_url, '  URI': payment_uri}))
    screen.say()
    await this.#until('the request to be there', externalId, ({status}) => status === 'awaiting')
    const wanted = readUri(payment_uri)
    const txid = await chains[currency].transfer({token: currency, ...wanted})
    this.#say(`A customer pays ${wanted.amount} ${currency} to the address in the URI`)
    await this.#until('the payment to be final', externalId, ({status}) => status === 'paid')
    screen.freeze()
    await this.#check(externalId, txid)
    await this.#checkPage(payment_url)
  }

  /** Polls the API, and shows its response, until the condition holds. */
  async #until(what: string, externalId: string, condition: (state: PaymentRequestState) => boolean): Promise<void> {
    await until(what, {screen: this.#cast.screen, pollMs}, async () => {
      const state = await this.#cast.shop.paymentRequests.get(externalId)
      this.#show(state)
      return condition(state)
    })
  }

  #show(state: PaymentRequestState): void {
    const {screen} = this.#cast
    const {statuses} = this.played
    if (statuses.at(-1) !== state.status) statuses.push(state.status)
    const line = this.#line(state)
    if (line !== this.#said && !screen.isLive) screen.say(line)
    this.#said = line
    screen.live([line], text =>
      text.replace(state.status, status => screen.style(state.status === 'paid' ? 'green' : 'yellow', status)),
    )
  }

  #line({status, amount_received, amount_pending, receipts}: PaymentRequestState): string {
    const needed = this.#cast.chains[currency].info.confirmations
    const progress = {
      awaiting: '',
      detected: `${amount_pending} ${currency} seen, ${Math.min(receipts[0]?.confirmations ?? 0, needed)}/${needed} confirmations`,
      paid: `${amount_received} ${currency} received`,
    }[status as string]
    return `  ${status.padEnd(8)}  ${progress ?? ''}`.trimEnd()
  }

  #say(what: string): void {
    this.#cast.screen.say(`  ${this.#cast.screen.style('dim', what)}`)
  }

  // --- what must hold ---

  /** GET /payments has the exact amount and the customer's transaction, and no webhook was sent for it. */
  async #check(externalId: string, txid: string): Promise<void> {
    const {shop, receiver} = this.#cast
    const {items} = await shop.payments.list({limit: 50}).page()
    const payment = items.find(({external_id}) => external_id === externalId)
    Object.assign(this.played, {amount_received: payment?.amount_received, txid: payment?.txid})
    if (payment?.status !== 'paid' || payment.amount_received !== amount || payment.txid !== txid)
      throw new Error(`GET /payments has ${JSON.stringify(payment)}, and ${txid} paid ${amount} ${currency}`)
    if (receiver.typesOf('txid', txid).length) throw new Error(`a webhook was sent for ${txid}`)
    this.#say(`GET /payments has it as ${payment.status}, by ${txid.slice(0, 10)}...`)
  }

  async #checkPage(url: string): Promise<void> {
    const {status, headers} = await fetch(url)
    if (status !== 200 || !headers.get('content-type')?.startsWith('text/html'))
      throw new Error(`the payment page ${url} returned ${status}`)
  }
}

/** BIP-21. */
function readUri(uri: string): {to: string; amount: string} {
  const {protocol, pathname, searchParams} = new URL(uri)
  if (protocol !== 'bitcoin:') throw new Error(`${uri} is not a payment URI of Bitcoin`)
  return {to: pathname, amount: searchParams.get('amount') ?? ''}
}
