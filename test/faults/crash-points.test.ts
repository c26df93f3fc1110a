// A worker, or custody, is killed between any two steps of a payout. What it leaves behind is right, and the next
// process pays each merchant once. All payouts sweep first, so that each reaches every step of its chain. ROUNDS=100
// kills at each step a hundred times.
import type {ChildProcess} from 'node:child_process'
import {once} from 'node:events'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {hasBitcoind} from '../support/bitcoin/node.ts'
import {BitcoinWorld, btc} from '../support/bitcoin/world.ts'
import {assertBooks} from '../support/books.ts'
import {EvmWorld, ether, jpyc, type Shop, usdc} from '../support/evm/world.ts'
import {SolanaWorld, sol} from '../support/solana/world.ts'
import {longLifetimeMs, TronWorld, trx} from '../support/tron/world.ts'
import {until} from '../support/until.ts'
import type {World} from '../support/world.ts'

const ofEveryChain = [
  'payout: before check',
  'payout: before begin_sweeping',
  'payment: before begin',
  'payment: after begin',
  'send: before sign',
  'send: after sign',
  'send: after store',
  'send: before broadcast',
  'send: after broadcast',
]
const ofSweeps = ['sweep: before begin', 'sweep: after begin']
const ofCustody = [
  'custody: before journal',
  'custody: after database',
  'custody: after file',
  'custody: before answer',
]
const replacing = 'send: before replace'

const rounds = Number(process.env.ROUNDS ?? 1)
/** In many rounds the fees are more than what custody signs for in a day. */
const budget = {ETH_FEE_BUDGET: '1000', BTC_FEE_BUDGET: '1000', TRON_FEE_BUDGET: '1000000', SOL_FEE_BUDGET: '1000'}
/** Each of them in each round. */
const eachRound = (labels: string[]) => Array.from({length: rounds}, () => labels).flat()

/** What differs between chains. */
interface Field {
  world: World & {isMining: boolean; close(): Promise<void>}
  openShop(n: number): Promise<Shop>
  tokenOf(shop: Shop): string
  grossOf(shop: Shop): bigint
  received(shop: Shop, txid: string): Promise<bigint>
  /** Mines a block without the waiting transactions. */
  passOver(): Promise<void>
  goOn(): Promise<void>
  /** How the outgoing payments of a payout end; however often gas was sent, it is here once. */
  outgoingPaymentsOf(shop: Shop): string[]
}

async function onEthereum(): Promise<Field> {
  const world = await EvmWorld.open(budget)
  // Alternates the ways of sweeping: by the address itself, with gas of the treasury's, and relayed by the treasury,
  // for a token of 6 decimals and one of 18.
  const kinds = [
    {token: 'USDC', amounts: [10n * usdc, 20n * usdc]},
    {token: 'ETH', amounts: [ether]},
    {token: 'USDT', amounts: [10n * usdc, 20n * usdc]},
    {token: 'JPYC', amounts: [jpyc + 1n, 2n * jpyc]},
    {token: 'ETH', amounts: [ether]},
    {token: 'USDT', amounts: [5n * usdc]},
  ] as const
  const kindOf = new Map<Shop, (typeof kinds)[number]>()
  const tokenOf = (shop: Shop) => kindOf.get(shop)!.token
  return {
    world,
    openShop: async n => {
      const kind = kinds[n % kinds.length]!
      const shop = await world.openShop(kind.token, [...kind.amounts])
      kindOf.set(shop, kind)
      return shop
    },
    tokenOf,
    grossOf: shop => kindOf.get(shop)!.amounts.reduce((sum: bigint, amount) => sum + amount, 0n),
    received: shop => world.received(shop, tokenOf(shop)),
    passOver: async () => void (await world.anvil.mineAt(20n * 10n ** 9n)),
    goOn: async () => void (await world.anvil.call('anvil_setNextBlockBaseFeePerGas', ['0x5f5e100'])),
    outgoingPaymentsOf: shop => [
      ...shop.addresses.map(() => 'sweep done'),
      'payout done',
      ...(tokenOf(shop) === 'USDT' ? ['fund done'] : []),
    ],
  }
}

async function onBitcoin(): Promise<Field> {
  const world = await BitcoinWorld.open({treasury: [btc, btc], settings: budget})
  return {
    world,
    openShop: () => world.openShop([100_000n, 200_000n]),
    tokenOf: () => 'BTC',
    grossOf: () => 300_000n,
    received: ({wallet}, txid) => world.paid(txid, wallet),
    passOver: async () => void (await world.client.mine(1, {only: []})),
    goOn: async () => {},
    outgoingPaymentsOf: () => ['payout done'],
  }
}

async function onTron(): Promise<Field> {
  const world = await TronWorld.open({lifetimeMs: longLifetimeMs, settings: budget})
  return {
    world,
    openShop: () => world.openShop([10n * trx, 20n * trx]),
    tokenOf: () => 'TRX',
    grossOf: () => 30n * trx,
    received: async ({wallet}) => world.holds(wallet),
    passOver: async () => void world.tron.mine(1, {only: []}),
    goOn: async () => {},
    outgoingPaymentsOf: shop => [...shop.addresses.map(() => 'sweep done'), 'payout done'],
  }
}

async function onSolana(): Promise<Field> {
  // In many rounds what custody signed may expire again and again, before a worker has it.
  const world = await SolanaWorld.open({settings: {...budget, SOL_MAX_LAPSES: '100'}})
  return {
    world,
    openShop: () => world.openShop([sol, 2n * sol]),
    tokenOf: () => 'SOL',
    grossOf: () => 3n * sol,
    received: async ({wallet}) => world.holds(wallet),
    passOver: async () => void world.solana.mine(1, {only: []}),
    goOn: async () => {},
    outgoingPaymentsOf: shop => [...shop.addresses.map(() => 'sweep done'), 'payout done'],
  }
}

describe.each([
  {chain: 'Ethereum', open: onEthereum, ofWorkers: [...ofEveryChain, ...ofSweeps], canReplace: true},
  {chain: 'Solana', open: onSolana, ofWorkers: [...ofEveryChain, ...ofSweeps], canReplace: false}, // nothing is replaced there
  // The same flow as Solana's; what Tron has besides, lent-energy.test.ts kills.
  ...(rounds > 1 ? [{chain: 'Tron', open: onTron, ofWorkers: [...ofEveryChain, ...ofSweeps], canReplace: false}] : []),
  {chain: 'Bitcoin', open: onBitcoin, ofWorkers: ofEveryChain, canReplace: hasBitcoind},
])('on $chain', ({open, ofWorkers, canReplace}) => {
  let field: Field
  let world: Field['world']
  /** Of each step: one for each round. */
  const shops = new Map<string, Shop[]>()
  const payouts: {label: string; shop: Shop; id: string}[] = []

  beforeAll(async () => {
    field = await open()
    world = field.world
    const labels = [...ofWorkers, ...ofCustody, ...(canReplace ? [replacing] : [])]
    for (const label of labels) shops.set(label, [])
    for (let round = 0; round < rounds; round++)
      await Promise.all(labels.map(async (label, n) => shops.get(label)!.push(await field.openShop(n))))
  }, 120_000 * rounds)
  afterAll(async () => {
    await world?.close()
  })

  async function request(label: string): Promise<void> {
    const shop = shops.get(label)!.pop()!
    payouts.push({label, shop, id: await world.request(shop, field.tokenOf(shop), true)})
  }

  async function diesOf(doomed: ChildProcess): Promise<string> {
    if (doomed.signalCode) return doomed.signalCode
    try {
      const [, signal] = await once(doomed, 'exit', {signal: AbortSignal.timeout(60_000)})
      return signal
    } finally {
      doomed.kill('SIGKILL') // one that does not die must not work beside the next
    }
  }

  test.each(eachRound(ofWorkers))(
    'a worker dies %s',
    async label => {
      const doomed = await world.startWorker({crashAt: label})
      const death = diesOf(doomed)
      await request(label)
      expect(await death).toBe('SIGKILL')
      await assertBooks(world.db)
    },
    90_000,
  )

  describe('while a worker waits for its response', () => {
    let worker: ChildProcess
    beforeAll(async () => {
      worker = await world.startWorker()
    })
    afterAll(async () => {
      await world.kill(worker)
      await world.startCustody()
    })

    test.each(eachRound(ofCustody))(
      'custody dies %s',
      async label => {
        await world.killCustody()
        const death = diesOf(await world.startCustody({crashAt: label}))
        await request(label)
        expect(await death).toBe('SIGKILL')
        await assertBooks(world.db)
      },
      90_000,
    )
  })

  test.each(canReplace ? eachRound([replacing]) : [])(
    'a worker dies %s',
    async () => {
      world.isMining = false
      const doomed = await world.startWorker({crashAt: replacing})
      const death = diesOf(doomed)
      await request(replacing)
      await until(
        async () => {
          await field.passOver()
          return doomed.signalCode
        },
        {timeoutMs: 60_000, what: 'the worker to die', intervalMs: 300},
      )
      expect(await death).toBe('SIGKILL')
      await field.goOn()
      await assertBooks(world.db)
    },
    90_000,
  )

  test(
    'pays each of these payouts once, to the last unit',
    async () => {
      world.isMining = true
      await world.startWorker()
      for (const {label, shop, id} of payouts) {
        const {txid} = await world.becomes(id, 'completed', 60_000)
        const gross = field.grossOf(shop)
        expect([label, await field.received(shop, txid!)]).toEqual([label, gross - gross / 100n])
        const ended = (await world.outgoingPayments(id)).filter(({outcome}) => outcome !== 'expired')
        const done = ended.map(({kind, outcome}) => `${kind} ${outcome}`)
        const funds = done.filter(end => end === 'fund done')
        if (funds.length > 0) {
          // At the fees of the replacement above an address gets gas again, or gas that is on its way is cancelled.
          while (done.includes('fund cancelled')) done.splice(done.indexOf('fund cancelled'), 1)
          expect(funds.length).toBeGreaterThanOrEqual(shop.addresses.length)
          done.splice(done.indexOf('fund done') + 1, funds.length - 1)
        }
        expect([label, ...done]).toEqual([label, ...field.outgoingPaymentsOf(shop)])
      }
      expect([...shops.values()].flat()).toEqual([])
      await assertBooks(world.db)
    },
    120_000 * rounds,
  )
})
