// What everybody is shown of a payout that waits: its merchant by the API and the dashboard, the operator by the
// command line.

import {expect} from 'vitest'
import {Payout} from '../../dashboard/pages/data.ts'
import {payoutTable} from '../../dashboard/pages/views/payouts.ts'
import {type Api, Client, makeKey, startApi} from './api.ts'
import {CommandLine} from './command-line.ts'
import type {World} from './world.ts'

interface Wait {
  reason: string
  detail: string
  since: string
}

export interface Expected {
  reason: string
  /** In what the operator reads. */
  detail: string | RegExp
  /** The API's code and message; null if it shows nothing in the way. */
  api: [code: string, message: string] | null
}

interface Shown {
  /** The code and the message of the API; null if it shows nothing in the way. */
  api: {code: string; message: string} | null
  /** Of payout show. */
  operator: Wait | null
  /** The reasons for which status says that payouts of the chain wait. */
  status: string[]
  /** The text of the dashboard's row. */
  dashboard: string
}

export class ShownWait {
  readonly #world: World
  readonly #api: Api
  readonly #commandLine: CommandLine

  private constructor(world: World, api: Api) {
    this.#world = world
    this.#api = api
    this.#commandLine = new CommandLine(world.db, {})
  }

  static async open(world: World): Promise<ShownWait> {
    return new ShownWait(world, await startApi(world.db))
  }

  /** Waits until the payout waits for this; then everybody is shown that, since lately. */
  async isThis(id: string, {reason, detail, api}: Expected): Promise<void> {
    await this.#world.becomes(id, reason)
    const seen = await this.#of(id)
    expect(seen.operator).toMatchObject({reason, detail: expect.stringMatching(detail), since: expect.any(String)})
    expect(seen.status).toContain(reason)
    expect(seen.api).toEqual(api && {code: api[0], message: api[1]})
    if (api) expect(seen.dashboard).toContain(`${api[1][0]!.toUpperCase()}${api[1].slice(1)}.`)
    expect(new Date(seen.operator!.since).getTime()).toBeGreaterThan(Date.now() - 120_000)
  }

  async #of(id: string): Promise<Shown> {
    const {db, chain} = this.#world
    const [row] = await db.rows<{public_id: string; merchant_id: string; item: unknown}>(
      `select app.public_id('pay', p.id) as public_id, p.merchant_id, dashboard.payout_item(p) as item from app.payout p where p.id = $1`,
      [id],
    )
    const {public_id, merchant_id, item} = row!
    const {secret} = await makeKey(db, merchant_id, ['read'])
    const {waiting} = (await new Client(this.#api, secret).get(`/v1/payouts/${public_id}`)).body
    const {waiting: operator} = await this.#commandLine.json<{waiting: Wait | null}>('payout', 'show', public_id)
    const {payouts} = await this.#commandLine.json<{
      payouts: {waiting: {what: string; chain: string; reason: string}[]}
    }>('status')
    return {
      api: waiting && {code: waiting.code, message: waiting.message},
      operator,
      status: payouts.waiting.filter(each => each.what === 'payout' && each.chain === chain).map(({reason}) => reason),
      dashboard: payoutTable([Payout.parse(item)], '')
        .text.replaceAll(/<[^>]*>/g, ' ')
        .replaceAll('&#39;', "'"),
    }
  }

  async close(): Promise<void> {
    this.#commandLine.close()
    await this.#api.close()
  }
}
