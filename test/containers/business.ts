// A merchant of an installation on local chains: money comes in, and is paid out to addresses of nobody.
import {randomBytes} from 'node:crypto'
import {generateKeyPairSigner} from '@solana/kit'
import {address} from 'bitcoinjs-lib'
import {Webhook} from 'standardwebhooks'
import {generatePrivateKey, privateKeyToAddress} from 'viem/accounts'
import {expect} from 'vitest'
import {z} from 'zod'
import {chain} from '../../chains/registry.ts'
import {newAddress} from '../../devnet/tron/client.ts'
import {Sluice} from '../../sdk/index.ts'
import {until} from '../support/until.ts'
import type {Received, Receiver} from '../support/webhooks.ts'
import type {Installation} from './installation.ts'

const evmWallet = () => privateKeyToAddress(generatePrivateKey())

/** What is paid in at once, what the treasury gets for network fees, in whole coins, and an address of nobody. */
const business = {
  ETH: {token: 'USDC', deposit: '25', fees: '5', wallet: evmWallet},
  POLYGON: {token: 'POL', deposit: '40', fees: '5', wallet: evmWallet},
  BTC: {token: 'BTC', deposit: '0.02', fees: '1', wallet: () => address.toBech32(randomBytes(20), 0, 'bcrt')},
  TRON: {token: 'TRX', deposit: '300', fees: '1000', wallet: newAddress},
  SOL: {token: 'SOL', deposit: '1', fees: '5', wallet: async () => (await generateKeyPairSigner()).address},
} as const
export type BusinessChain = keyof typeof business

const Treasuries = z.object({treasuries: z.array(z.object({chain: z.string(), address: z.string()}))})

export class Business {
  readonly shop: Sluice
  readonly #sluice: Installation
  readonly #chains: BusinessChain[]
  readonly #addresses: Record<string, string>
  readonly #webhooks: Webhooks

  private constructor(
    sluice: Installation,
    shop: Sluice,
    {chains, addresses, webhooks}: {chains: BusinessChain[]; addresses: Record<string, string>; webhooks: Webhooks},
  ) {
    this.shop = shop
    this.#sluice = sluice
    this.#chains = chains
    this.#addresses = addresses
    this.#webhooks = webhooks
  }

  /** Makes the merchant and its user, with payout addresses on its chains, and gives the treasuries coins. */
  static async open(sluice: Installation, receiver: Receiver, chains: BusinessChain[]): Promise<Business> {
    await sluice.cli(
      'merchant',
      'create',
      '--name',
      'Acme',
      '--prefix',
      'acme',
      '--chains',
      Object.keys(business).join(','),
    )
    const {secret} = z.object({secret: z.string()}).parse(await sluice.cli('key', 'create', '--merchant', 'acme'))
    const shop = new Sluice({apiKey: secret, baseUrl: sluice.apiUrl})
    const url = `http://${await sluice.gateway('default')}:${new URL(receiver.url).port}/`
    const {secret: webhookSecret} = await shop.webhookEndpoints.create({url})
    const user = await shop.users.create({external_ref: 'alice'})
    const addresses = Object.fromEntries(user.addresses.map(({chain, address}) => [chain, address]))
    const webhooks = verifying(receiver, webhookSecret)
    const made = new Business(sluice, shop, {chains, addresses, webhooks})
    const {treasuries} = Treasuries.parse(await sluice.cli('treasury', 'show'))
    for (const code of chains) {
      const treasury = treasuries.find(each => each.chain === code)!.address
      await made.#send(code, chain(code).assets[0].token, treasury, business[code].fees)
      const to = await business[code].wallet()
      await sluice.cli('whitelist', 'add', '--merchant', 'acme', '--chain', code, '--address', to)
      await shop.payoutAddresses.set({chain: code, address: to})
    }
    return made
  }

  async #send(code: string, token: string, to: string, amount: string): Promise<void> {
    const given = ['--chain', code, '--token', token, '--to', to, '--amount', amount]
    await this.#sluice.compose('exec', '-T', 'chains', 'sluice', 'devnet', 'send', ...given)
  }

  /** Pays in once on each chain; again, if a container was just killed. */
  async deposit(): Promise<void> {
    for (const code of this.#chains) {
      const {token, deposit} = business[code]
      const paid = () => this.#send(code, token, this.#addresses[code]!, deposit).then(() => true)
      await until(paid, {timeoutMs: 180_000, intervalMs: 500, what: `a deposit on ${code}`})
    }
  }

  /** Requests the whole balance of each chain, once there is one. */
  async payOut(): Promise<void> {
    for (const code of this.#chains) {
      const {token} = business[code]
      const hasBalance = async () =>
        (await this.shop.balances.get()).balances.some(
          each => each.chain === code && each.token === token && Number(each.net) > 0,
        )
      await until(hasBalance, {timeoutMs: 180_000, intervalMs: 500, what: `a balance on ${code}`})
      await this.shop.payouts.create({chain: code, token, sweep_first: true})
    }
  }

  /**
   * Waits until this many payouts are there and ended: each paid by one transaction, all together every deposit once,
   * and each told by a signed webhook.
   */
  async isRight(count: number): Promise<void> {
    const payouts = await until(
      async () => {
        const {items: all} = await this.shop.payouts.list({limit: 200}).page()
        return all.length === count && all.every(({status}) => status === 'completed' || status === 'failed') && all
      },
      {timeoutMs: 300_000, intervalMs: 1000, what: `${count} payouts to end`},
    )
    expect(payouts.map(({status}) => status)).toEqual(Array(count).fill('completed'))
    expect(new Set(payouts.map(({txid}) => txid)).size).toBe(count)
    const {items: deposits} = await this.shop.deposits.list({limit: 200}).page()
    for (const code of this.#chains) {
      const {deposit} = business[code]
      const of = deposits.filter(each => each.chain === code)
      expect(of.map(({status, amount}) => [status, amount])).toEqual(Array(of.length).fill(['final', deposit]))
      const gross = payouts.filter(each => each.chain === code).reduce((sum, each) => sum + Number(each.gross), 0)
      expect(gross, `each deposit on ${code} was paid out once`).toBeCloseTo(of.length * Number(deposit), 9)
    }
    const wanted = JSON.stringify([deposits.length, count])
    await until(
      async () => JSON.stringify([this.#told('deposit.confirmed'), this.#told('payout.completed')]) === wanted,
      {
        timeoutMs: 60_000,
        what: 'every webhook',
      },
    )
    expect(this.#webhooks.refused).toEqual([])
  }

  /** By transaction: after a restore, events are sent again with other ids. */
  #told(type: string): number {
    return new Set(this.#webhooks.events.filter(event => event.type === type).map(({txid}) => txid)).size
  }
}

interface Webhooks {
  events: Received['event'][]
  /** Why, of each whose signature is not right. */
  refused: string[]
}

/** Verifies each webhook when it comes, as a merchant does: a signature is right for minutes only. */
function verifying(receiver: Receiver, secret: string): Webhooks {
  const webhooks: Webhooks = {events: [], refused: []}
  receiver.response = ({headers, body, event}, response) => {
    try {
      new Webhook(secret).verify(body, headers as Record<string, string>)
      webhooks.events.push(event)
      response.writeHead(204).end()
    } catch (error) {
      webhooks.refused.push(`${event.id}: ${error}`)
      response.writeHead(400).end()
    }
  }
  return webhooks
}
