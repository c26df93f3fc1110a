// What is not worth a sweep holds up no payout, on a chain of each family, by real processes (of a token on Ethereum,
// of coins elsewhere): small payments are in no payout, one of a stranger keeps nobody from being paid, and what has
// reached the minimum is paid, swept from its address.
import {afterEach, describe, expect, test} from 'vitest'
import {BitcoinWorld, btc} from '../support/bitcoin/world.ts'
import {assertBooks} from '../support/books.ts'
import {EvmWorld, usdc} from '../support/evm/world.ts'
import {SolanaWorld, sol} from '../support/solana/world.ts'
import {TronWorld, trx} from '../support/tron/world.ts'
import type {Shop, World} from '../support/world.ts'

type OpenWorld = World & {close(): Promise<void>}

interface Field {
  world: OpenWorld
  token: string
  /**
   * The minimum, an amount that is worth a sweep, and one that is not; of three of these two together are the minimum.
   */
  amounts: {least: bigint; large: bigint; small: bigint}
  open(amounts: bigint[]): Promise<Shop>
  pay(address: string, amount: bigint): Promise<unknown>
  /** Two small payments to one address are worth a sweep together: each is an output of its own on Bitcoin. */
  addsUp: boolean
}

const fields: Record<string, () => Promise<Field>> = {
  async USDC() {
    const world = await EvmWorld.open()
    return {
      world,
      token: 'USDC',
      amounts: {least: usdc, large: 100n * usdc, small: 600_000n},
      open: amounts => world.openShop('USDC', amounts),
      pay: (address, amount) => world.pay('USDC', [address], [amount]),
      addsUp: true,
    }
  },
  async BTC() {
    const world = await BitcoinWorld.open()
    return {
      world,
      token: 'BTC',
      amounts: {least: 1000n, large: btc / 10n, small: 600n},
      open: amounts => world.openShop(amounts),
      pay: (address, amount) => world.pay([address], [amount]),
      addsUp: false,
    }
  },
  async TRX() {
    const world = await TronWorld.open()
    return {
      world,
      token: 'TRX',
      amounts: {least: trx, large: 10n * trx, small: 600_000n},
      open: amounts => world.openShop(amounts),
      pay: (address, amount) => world.pay([address], [amount]),
      addsUp: true,
    }
  },
  async SOL() {
    const world = await SolanaWorld.open()
    return {
      world,
      token: 'SOL',
      amounts: {least: 1_200_000n, large: sol, small: 700_000n},
      open: amounts => world.openShop(amounts),
      pay: (address, amount) => world.pay([address], [amount]),
      addsUp: true,
    }
  },
}

// Beside each other: each has a world of its own.
describe.each(Object.entries(fields))('%s', {concurrent: true}, (_name, open) => {
  let world: OpenWorld | undefined
  afterEach(async () => {
    await world?.close()
    world = undefined
  })

  test('small payments are in no payout, hold none up, and are paid once they are worth a sweep', async () => {
    const field = await open()
    const {token, amounts, addsUp} = field
    const {least, large, small} = amounts
    world = field.world
    const {db, chain} = world
    await world.startWorker()
    await db.rows('select app.set_sweep_min($1, $2, $3)', [chain, token, String(least)])
    const balanceOf = async ({id}: Shop) => {
      const [row] = await db.rows<{gross: string; held_back: string}>(
        'select amount::text as gross, held_back::text from app.balance_now where merchant_id = $1',
        [id],
      )
      return row && [BigInt(row.gross), BigInt(row.held_back)]
    }

    const poor = await field.open([small, small, small])
    expect(await balanceOf(poor)).toEqual([3n * small, 3n * small])
    await expect(world.request(poor, token)).rejects.toThrow(
      field.addsUp ? 'is held back, on addresses with less to sweep than' : 'is held back, in outputs of less than',
    )

    const rich = await field.open([large, small])
    const id = await world.request(rich, token, true)
    const payout = await world.becomes(id, 'completed', 60_000)
    expect([payout.gross, await balanceOf(rich)]).toEqual([String(large), [small, small]])
    const swept = await db.rows<{source: string}>(
      `select source from app.outgoing_payment where payout_id = $1 and kind = 'sweep'`,
      [id],
    )
    expect(swept.map(({source}) => source)).toEqual(token === 'BTC' ? [] : [rich.addresses[0]])

    await field.pay(poor.addresses[0]!, small)
    expect(await balanceOf(poor)).toEqual([4n * small, addsUp ? 2n * small : 4n * small])
    if (addsUp) {
      const paid = await world.becomes(await world.request(poor, token, true), 'completed', 60_000)
      expect([paid.gross, await balanceOf(poor)]).toEqual([String(2n * small), [2n * small, 2n * small]])
    }
    await assertBooks(db)
  }, 240_000)
})
