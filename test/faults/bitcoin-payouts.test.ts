// Payouts on Bitcoin, with all processes and a real node: the inputs, the amounts that arrive, and the effects of
// reorganisations, mempool changes and the operator's decisions.
import type {ChildProcess} from 'node:child_process'
import {pino} from 'pino'
import {afterAll, afterEach, beforeAll, describe, expect, test} from 'vitest'
import {parseTransaction} from '../../chains/bitcoin/block.ts'
import {addressOfScript} from '../../chains/bitcoin/script.ts'
import {bitcoinSettings} from '../../chains/bitcoin/settings.ts'
import {readSettings} from '../../chains/settings.ts'
import {openNode} from '../../jobs/payouts/bitcoin/node.ts'
import {hasBitcoind} from '../support/bitcoin/node.ts'
import {BitcoinWorld, btc, type OutputRow, regtest, someAddress} from '../support/bitcoin/world.ts'
import {assertBooks} from '../support/books.ts'
import {CommandLine} from '../support/command-line.ts'
import {until} from '../support/until.ts'
import type {Shop} from '../support/world.ts'

const netOf = (gross: bigint) => gross - gross / 100n

let world: BitcoinWorld
let worker: ChildProcess

async function open(treasury: bigint[], settings: Record<string, string> = {}): Promise<void> {
  world = await BitcoinWorld.open({treasury, settings})
  worker = await world.startWorker()
}

async function close(): Promise<void> {
  await world?.close()
}

const recipients = {
  P2PKH: 'mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn',
  P2SH: '2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc',
  P2WPKH: 'bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080',
  P2WSH: 'bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry',
  P2TR: 'bcrt1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqc8gma6',
}

/** The inputs of a payout's payment. */
async function spentFor(payout: string): Promise<OutputRow[]> {
  const [outgoingPayment] = (await world.outgoingPayments(payout)).filter(({kind}) => kind === 'payout')
  return (await world.outputs()).filter(({outgoing_payment_id}) => outgoing_payment_id === outgoingPayment!.id)
}

/** A payout whose payment is broadcast, and which no block takes for now. */
async function payingButNotMined(
  amounts: bigint[],
): Promise<{shop: Shop; id: string; outgoingPayment: string; txid: string}> {
  const shop = await world.openShop(amounts)
  world.isMining = false
  const id = await world.request(shop, 'BTC')
  await world.becomes(id, 'paying')
  const [outgoingPayment] = await world.outgoingPayments(id)
  const txid = await broadcast(outgoingPayment!.id, 1)
  return {shop, id, outgoingPayment: outgoingPayment!.id, txid}
}

/** Waits until this many attempts were made, and the node accepted the last one. Resolves to its txid. */
async function broadcast(outgoingPayment: string, attempt: number): Promise<string> {
  return await until(
    async () => {
      const [row] = await world.db.rows<{txid: string}>(
        'select txid from app.outgoing_attempt where outgoing_payment_id = $1 and attempt = $2 and broadcast_at is not null',
        [outgoingPayment, attempt],
      )
      return row && (await world.client.mempool()).includes(row.txid) ? row.txid : undefined
    },
    {timeoutMs: 20_000, what: `attempt ${attempt} to be broadcast`},
  )
}

/** Mines empty blocks until there is this attempt. */
async function stuckUntil(outgoingPayment: string, attempt: number): Promise<string> {
  await until(
    async () => {
      await world.client.mine(1, {only: []})
      return (await world.attempts(outgoingPayment)).length >= attempt
    },
    {timeoutMs: 30_000, what: `attempt ${attempt}`, intervalMs: 500},
  )
  return await broadcast(outgoingPayment, attempt)
}

function openCommandLine(source: 'electrum' | 'node' = 'electrum'): CommandLine {
  return new CommandLine(world.db, {
    BTC: {
      rpc_url: world.bitcoin.electrumUrl,
      local: true,
      settings: {
        BTC_NETWORK: 'regtest',
        BTC_SOURCE: source,
        BTC_ELECTRUM_URLS: world.bitcoin.electrumUrl,
        BTC_RPC_URL: world.bitcoin.rpcUrl,
      },
    },
  })
}

const balanceOf = async ({id}: Shop) =>
  BigInt(
    (
      await world.db.rows<{amount: string}>(
        'select coalesce(sum(amount), 0)::text as amount from app.balance_now where merchant_id = $1',
        [id],
      )
    )[0]!.amount,
  )

/** An operator's withdrawal with the command line, then an audit that passes, and one that finds a planted error. */
async function withdrawAndAudit(source: 'electrum' | 'node'): Promise<void> {
  const commandLine = openCommandLine(source)
  try {
    const to = someAddress()
    await world.db.rows(`insert into custody.whitelist (chain, address) values ('BTC', $1)`, [to])
    const withdraw = (amount: string) => [
      'treasury',
      'withdraw',
      '--chain',
      'BTC',
      '--token',
      'BTC',
      '--amount',
      amount,
      '--to',
      to,
    ]
    expect(await commandLine.failure(...withdraw('0.000001'))).toContain('would be dust')
    expect(await commandLine.failure(...withdraw('3'))).toContain('are not enough')
    const {id} = await commandLine.json<{id: string}>(...withdraw('1.4'))
    await until(
      async () =>
        (await world.db.rows(`select from app.outgoing_payment where id = $1 and outcome = 'done'`, [id])).length,
      {
        timeoutMs: 20_000,
        what: 'the withdrawal to be final',
      },
    )
    const [attempt] = await world.attempts(id)
    expect(attempt!.outputs.map(({script, value}) => [addressOfScript(script, regtest), value])).toContainEqual([
      to,
      140_000_000n,
    ])
    const audit = async () => (await commandLine.run(['audit', '--json'])).stdout as string
    const {right, checks} = JSON.parse(await audit()) as {right: boolean; checks: {right: boolean; name: string}[]}
    expect(checks.filter(check => !check.right)).toEqual([])
    expect(right).toBe(true)
    expect(checks.map(({name}) => name)).toContain('on_chain_btc')

    await world.db.rows(`update app.output set amount = amount + 1 where spent_by is null and merchant_id is null`)
    const broken = JSON.parse(await audit()) as {checks: {right: boolean; name: string}[]}
    expect(broken.checks.filter(check => !check.right).map(({name}) => name)).toEqual(
      expect.arrayContaining(['outputs', 'on_chain_btc']),
    )
    await world.db.rows(`update app.output set amount = amount - 1 where spent_by is null and merchant_id is null`)
  } finally {
    commandLine.close()
  }
}

describe('with a sufficient treasury', () => {
  beforeAll(() => open([btc, btc, 50_000n, 20_000n]))
  afterAll(close)
  afterEach(async () => {
    world.isMining = true
    await assertBooks(world.db)
  })

  test.each(Object.entries(recipients))(
    'a payout to %s is one transaction, and the net arrives to the last sat',
    async (_, wallet) => {
      const shop = await world.openShop([60_000n, 30_000n, 200_000n], {wallet})
      const before = await world.db.rows('select count(*) from app.deposit')
      const id = await world.request(shop, 'BTC', true)
      const {txid} = await world.becomes(id, 'completed')
      expect(await world.paid(txid!, wallet)).toBe(netOf(290_000n))
      expect((await world.outgoingPayments(id)).map(({kind, outcome, attempts}) => [kind, outcome, attempts])).toEqual([
        ['payout', 'done', 1],
      ])
      expect((await spentFor(id)).map(({amount, merchant_id}) => [amount, merchant_id === shop.id])).toEqual([
        [200_000n, true],
        [60_000n, true],
        [30_000n, true],
      ])
      expect(await world.db.rows('select count(*) from app.deposit')).toEqual(before) // change is no deposit
      const [fee] = await world.db.rows<{fee: string}>(
        'select network_fee::text as fee from app.payout where id = $1',
        [id],
      )
      const change = await world.paid(txid!, world.treasury)
      expect(change).toBe(290_000n - netOf(290_000n) - BigInt(fee!.fee))
      expect((await world.outputs()).find(({outpoint}) => outpoint.startsWith(txid!))).toMatchObject({
        amount: change,
        merchant_id: null,
        outgoing_payment_id: null,
      })
    },
  )

  test("the fee is the offered rate for each virtual byte, and at least the operator's minimum", async () => {
    const shop = await world.openShop([80_000n])
    const id = await world.request(shop, 'BTC')
    await world.becomes(id, 'completed')
    const [outgoingPayment] = await world.outgoingPayments(id)
    const [attempt] = await world.attempts(outgoingPayment!.id)
    expect(Number(attempt!.fee) / attempt!.vsize).toBeGreaterThanOrEqual(1)
    expect(Number(attempt!.fee) / attempt!.vsize).toBeLessThan(1.02)
  })

  test("the missing amount comes from the treasury's smallest sufficient output", async () => {
    const shop = await world.openShop([1500n, 1000n]) // its fee of 25 sat does not cover the network fee
    const id = await world.request(shop, 'BTC')
    await world.becomes(id, 'completed')
    const spent = await spentFor(id)
    expect(spent.flatMap(({amount, merchant_id}) => (merchant_id ? amount : []))).toEqual([1500n, 1000n])
    const free = (await world.outputs()).filter(({merchant_id, spent_by}) => !merchant_id && !spent_by)
    const [smallest] = spent.filter(({merchant_id}) => !merchant_id)
    expect(smallest!.amount).toBeLessThan(free.map(({amount}) => amount).at(-2)!) // its own change may be smaller
  })

  test('an output that costs more than it brings is not spent, also with sweep_first', async () => {
    await world.kill(worker)
    worker = await world.startWorker({settings: {BTC_MIN_FEE_RATE: '6'}})
    const shop = await world.openShop([400n, 200_000n])
    const id = await world.request(shop, 'BTC', true)
    await world.becomes(id, 'completed')
    await world.kill(worker)
    worker = await world.startWorker()
    expect((await spentFor(id)).map(({amount}) => amount)).toEqual([200_000n])
    expect((await world.outputs()).filter(({merchant_id}) => merchant_id === shop.id).at(-1)).toMatchObject({
      amount: 400n,
      outgoing_payment_id: null,
    })
  })

  test('a net that would be dust fails at once with the reason, and restores the balance', async () => {
    const shop = await world.openShop([500n], {wallet: recipients.P2PKH})
    await world.db.rows(`update app.asset set min_payout = 1 where chain = 'BTC'`)
    const id = await world.request(shop, 'BTC')
    expect(await world.becomes(id, 'failed')).toMatchObject({
      error_code: 'broadcast_rejected',
      error_message: expect.stringContaining('would be dust'),
    })
    expect(await balanceOf(shop)).toBe(500n)
  })

  test('a deposit that is double-spent while a payout waits is not part of it', async () => {
    const shop = await world.openShop([100_000n])
    world.isMining = false
    await world.killCustody()
    const {txid} = await world.send([shop.addresses[0]!], [70_000n])
    await until(async () => (await world.db.rows('select from app.deposit where txid = $1', [txid])).length, {
      timeoutMs: 15_000,
      what: 'the unconfirmed deposit',
    })
    const id = await world.request(shop, 'BTC', true)
    await world.becomes(id, 'custody_unreachable')
    const {raw} = await world.client.conflict(txid)
    await world.client.mine(2, {include: [raw]})
    await world.startCustody()
    world.isMining = true
    await world.becomes(id, 'completed')
    expect((await spentFor(id)).map(({amount}) => amount)).toEqual([100_000n])
    // Of a server that does not show it: after 30 s, which pass at once here.
    const age = `update chain.unconfirmed set missed_since = missed_since - interval '30 seconds'
      where txid = $1 and missed_since > clock_timestamp() - interval '30 seconds'`
    await until(
      async () => {
        await world.db.rows(age, [txid])
        return (await world.db.rows(`select from app.deposit where txid = $1 and status = 'reorged'`, [txid])).length
      },
      {timeoutMs: 60_000, what: 'the double-spent deposit to be reorged'},
    )
  }, 90_000)

  test('a payout waits while custody, or the server, is away', async () => {
    const shop = await world.openShop([100_000n])
    await world.killCustody()
    const id = await world.request(shop, 'BTC')
    await world.becomes(id, 'custody_unreachable')
    world.isMining = false
    world.bitcoin.process.kill('SIGKILL')
    await world.startCustody()
    await world.becomes(id, 'node_unreachable', 60_000)
    await world.bitcoin.restart()
    world.isMining = true
    await world.becomes(id, 'completed', 60_000)
  }, 90_000)

  test('a payment that left the mempool is broadcast again', async () => {
    const {id, txid} = await payingButNotMined([100_000n])
    await world.client.forget([txid])
    await until(async () => (await world.client.mempool()).includes(txid), {
      timeoutMs: 20_000,
      what: 'the payment to be broadcast again',
    })
    world.isMining = true
    expect(await world.becomes(id, 'completed')).toMatchObject({txid})
  })

  test('a payment whose block leaves the chain is broadcast again, and completed when another block is final', async () => {
    const {shop, id, outgoingPayment, txid} = await payingButNotMined([100_000n])
    await world.client.mine(1)
    await until(() => world.isMined(txid), {timeoutMs: 15_000, what: 'the payment to be mined'})
    await world.client.reorg(1, {transactions: 'dropped'})
    await until(async () => !(await world.isMined(txid)), {timeoutMs: 15_000, what: 'the reorganisation'})
    world.isMining = true
    const {txid: paid} = await world.becomes(id, 'completed', 60_000)
    const attempts = await world.attempts(outgoingPayment) // blocks without it were mined: it may have been replaced
    expect(attempts.map(attempt => attempt.txid)).toContain(paid)
    expect(await world.paid(paid!, shop.wallet)).toBe(netOf(100_000n))
  }, 90_000)

  test('an operator cancels a payment under way: its inputs go to the treasury, and the restored balance can be paid', async () => {
    const {shop, id, outgoingPayment, txid} = await payingButNotMined([100_000n])
    await world.db.rows('select app.cancel_payout_by_operator($1)', [id])
    const cancel = await broadcast(outgoingPayment, 2)
    expect(await world.client.mempool()).not.toContain(txid)
    world.isMining = true
    expect(await world.becomes(id, 'failed')).toMatchObject({error_code: 'cancelled'})
    const [, attempt] = await world.attempts(outgoingPayment)
    expect(await world.paid(cancel, world.treasury)).toBe(100_000n - attempt!.fee)
    expect(await balanceOf(shop)).toBe(100_000n)
    await assertBooks(world.db)
    const again = await world.request(shop, 'BTC')
    const {txid: paid} = await world.becomes(again, 'completed')
    expect(await world.paid(paid!, shop.wallet)).toBe(netOf(100_000n))
  })

  test('two workers pay each payout once, although all need the treasury', async () => {
    const other = await world.startWorker()
    const shops = await Promise.all([1n, 2n, 3n].map(n => world.openShop([n * 1000n])))
    const ids = await Promise.all(shops.map(shop => world.request(shop, 'BTC', true)))
    for (const [i, id] of ids.entries()) {
      const {txid} = await world.becomes(id, 'completed', 60_000)
      expect(await world.paid(txid!, shops[i]!.wallet)).toBe(netOf(BigInt(i + 1) * 1000n))
    }
    await world.kill(other)
  })

  test('more than 500 inputs are swept first, 500 at a time, and the rest goes with the payment', async () => {
    const shop = await world.openShop([40_000n])
    const many = Array<bigint>(1020).fill(1000n)
    await world.pay(
      many.map(() => shop.addresses[0]!),
      many,
    )
    const id = await world.request(shop, 'BTC', true)
    const {txid} = await world.becomes(id, 'completed', 90_000)
    expect(await world.paid(txid!, shop.wallet)).toBe(netOf(1_060_000n))
    const outgoingPayments = await world.outgoingPayments(id)
    expect(outgoingPayments.map(({kind, outcome}) => `${kind} ${outcome}`)).toEqual([
      'sweep done',
      'sweep done',
      'payout done',
    ])
    const counts = await Promise.all(outgoingPayments.map(async ({id}) => (await world.attempts(id))[0]!.inputs.length))
    expect(counts.slice(0, 2)).toEqual([500, 500])
    expect(counts[2]).toBeGreaterThanOrEqual(21)
    expect(counts[2]).toBeLessThan(30)
  }, 120_000)

  describe.skipIf(!hasBitcoind)('on a node that accepts replacements', () => {
    test('a payment that no block takes is replaced: the same inputs, less change, a fee that nodes accept', async () => {
      const {shop, id, outgoingPayment, txid} = await payingButNotMined([100_000n, 50_000n])
      const second = await stuckUntil(outgoingPayment, 2)
      expect(await world.client.mempool()).not.toContain(txid)
      const [one, two] = await world.attempts(outgoingPayment)
      expect(two!.inputs.map(({outpoint}) => outpoint)).toEqual(one!.inputs.map(({outpoint}) => outpoint))
      const more = Number(two!.fee - one!.fee) / two!.vsize
      expect(more).toBeGreaterThanOrEqual(1.02)
      expect(more).toBeLessThan(1.05)
      world.isMining = true
      expect(await world.becomes(id, 'completed')).toMatchObject({txid: second})
      expect(await world.paid(second, shop.wallet)).toBe(netOf(150_000n))
    })

    test('a replacement that the change cannot pay for adds an input of the treasury', async () => {
      const {shop, id, outgoingPayment} = await payingButNotMined([20_000n]) // at most 200 sat besides the net
      await stuckUntil(outgoingPayment, 2)
      const last = await stuckUntil(outgoingPayment, 3)
      const attempts = await world.attempts(outgoingPayment)
      const outpoints = attempts.map(({inputs}) => inputs.map(({outpoint}) => outpoint))
      expect(outpoints.at(-1)!.length).toBeGreaterThan(outpoints[0]!.length)
      for (const earlier of outpoints) expect(outpoints.at(-1)).toEqual(expect.arrayContaining(earlier))
      expect(outpoints.map(([firstInput]) => firstInput)).toEqual(outpoints.map(() => outpoints[0]![0]))
      world.isMining = true
      expect(await world.becomes(id, 'completed')).toMatchObject({txid: last})
      expect(await world.paid(last, shop.wallet)).toBe(netOf(20_000n))
    })

    test("if the first attempt confirms after it was replaced, it counts, and the second one's extra input is free again", async () => {
      const {id, outgoingPayment, txid} = await payingButNotMined([20_000n])
      await stuckUntil(outgoingPayment, 2)
      await stuckUntil(outgoingPayment, 3)
      const [first] = await world.attempts(outgoingPayment)
      await world.client.mine(2, {only: [], include: [first!.raw]})
      world.isMining = true
      expect(await world.becomes(id, 'completed')).toMatchObject({txid})
      expect(await spentFor(id)).toHaveLength(first!.inputs.length)
    })
  })

  describe('a deposit that stays unconfirmed', () => {
    let line: CommandLine
    beforeAll(() => {
      line = openCommandLine()
    })
    afterAll(() => line.close())
    const cpfp = (txid: string, rate: string) => [
      'treasury',
      'cpfp',
      '--chain',
      'BTC',
      '--txid',
      txid,
      '--fee-rate',
      rate,
    ]

    /** A shop with an unconfirmed deposit. */
    async function stuck(amounts: bigint[]): Promise<{shop: Shop; txid: string; raw: string}> {
      const shop = await world.openShop(amounts, {isPaid: false})
      world.isMining = false
      const sent = await world.send(shop.addresses, amounts, 1)
      await until(async () => (await depositsOf(sent.txid)).length === amounts.length, {
        timeoutMs: 15_000,
        what: 'the unconfirmed deposits',
      })
      return {shop, ...sent}
    }
    const depositsOf = (txid: string) =>
      world.db.rows<{status: string; version: number}>('select status, version from app.deposit where txid = $1', [
        txid,
      ])
    const outcomeOf = async (id: string) =>
      (
        await world.db.rows<{outcome: string | null}>('select outcome from app.outgoing_payment where id = $1', [id])
      )[0]!.outcome

    test('is mined with a child that pays for both, is credited once, and pays the merchant', async () => {
      const {shop, txid, raw} = await stuck([60_000n, 40_000n])
      const {id, fee} = await line.json<{id: string; fee: string}>(...cpfp(txid, '20'))
      const child = await broadcast(id, 1)
      const [attempt] = await world.attempts(id)
      expect(attempt!.inputs.map(({outpoint}) => outpoint.slice(0, 64))).toEqual([txid, txid])
      expect(attempt!.outputs.map(({script, value}) => [addressOfScript(script, regtest), value])).toEqual([
        [world.treasury, 100_000n - BigInt(fee)],
      ])
      const parent = await parentOf(txid, raw)
      const rate = (Number(attempt!.fee) + parent.fee) / (attempt!.vsize + parent.vsize)
      expect(rate).toBeGreaterThanOrEqual(20)
      expect(rate).toBeLessThan(20.2)
      expect(await line.failure(...cpfp(txid, '30'))).toContain(
        'a child transaction of ours already spends these outputs',
      )
      expect(await line.failure(...cpfp(child, '30'))).toContain('is our own transaction')
      expect(await line.failure('treasury', 'cancel', id)).toContain('is a CPFP child')
      const {withdrawals} = await line.json<{withdrawals: object[]}>('treasury', 'show')
      expect(withdrawals).toMatchObject([{id, kind: 'cpfp', txid: child}])
      world.isMining = true
      await until(async () => (await outcomeOf(id)) === 'done', {timeoutMs: 20_000, what: 'the child to be final'})
      expect(await depositsOf(txid)).toEqual(Array(2).fill({status: 'final', version: 2}))
      expect(await balanceOf(shop)).toBe(100_000n)
      await assertBooks(world.db)
      const payout = await world.request(shop, 'BTC')
      const paid = await world.becomes(payout, 'completed')
      expect(await world.paid(paid.txid!, shop.wallet)).toBe(netOf(100_000n))
      const {checks} = JSON.parse((await line.run(['audit', '--json'])).stdout) as {checks: {right: boolean}[]}
      expect(checks.filter(check => !check.right)).toEqual([])
    }, 90_000)

    test.skipIf(!hasBitcoind)(
      'has its child replaced like any unconfirmed transaction, above the cap for the child alone',
      async () => {
        const {txid} = await stuck([100_000n])
        const {id} = await line.json<{id: string}>(...cpfp(txid, '195'))
        const first = await broadcast(id, 1)
        const second = await stuckUntil(id, 2)
        expect(await world.client.mempool()).not.toContain(first)
        const [, two] = await world.attempts(id)
        expect(Number(two!.fee) / two!.vsize).toBeGreaterThan(200)
        world.isMining = true
        await until(async () => (await outcomeOf(id)) === 'done', {timeoutMs: 20_000, what: 'the child to be final'})
        expect(await world.isMined(second)).toBe(true)
      },
      60_000,
    )

    test('that another payment to us double-spends ends its child, whose fee is free again', async () => {
      const {shop, txid} = await stuck([100_000n])
      const {id} = await line.json<{id: string}>(...cpfp(txid, '10'))
      await broadcast(id, 1)
      const [address] = await world.db.rows<{address: string}>('select address from app.deposit where txid = $1', [
        txid,
      ])
      const {raw} = await world.client.conflict(txid, [{to: address!.address, amount: 90_000n}])
      await world.client.mine(2, {only: [], include: [raw]})
      await until(async () => (await outcomeOf(id)) === 'conflicted', {timeoutMs: 20_000, what: 'the child to be over'})
      expect((await depositsOf(txid)).map(({status}) => status)).toEqual(['reorged'])
      expect(await balanceOf(shop)).toBe(90_000n)
    }, 60_000)

    test('gets no CPFP child where that is impossible, and the command says why', async () => {
      const {txid, shop} = await stuck([1000n])
      expect(await line.failure(...cpfp(txid, '201'))).toContain('BTC_MAX_FEE_RATE')
      expect(await line.failure(...cpfp(txid, '1'))).toContain('there is nothing to speed up')
      expect(await line.failure(...cpfp(txid, '20'))).toContain('is too small')
      expect(await line.failure(...cpfp('ab'.repeat(32), '20'))).toContain(
        'has no unconfirmed payment to an address of ours',
      )
      world.isMining = true
      await until(async () => (await balanceOf(shop)) === 1000n, {timeoutMs: 20_000, what: 'the deposit'})
      expect(await line.failure(...cpfp(txid, '20'))).toContain('is in block')
    }, 60_000)

    /** Its size and fee, computed from the bytes of its inputs' transactions. */
    async function parentOf(txid: string, raw: string): Promise<{vsize: number; fee: number}> {
      const electrum = await waitingAt('electrum', txid)
      const {inputs, outputs, strippedSize} = parseTransaction(Buffer.from(raw, 'hex'))
      let fee = -outputs.reduce((sum, {value}) => sum + value, 0n)
      for (const {outpoint} of inputs) {
        const [from, vout] = outpoint.split(':') as [string, string]
        fee += parseTransaction(Buffer.from(await world.client.raw(from), 'hex')).outputs[Number(vout)]!.value
      }
      const found = {vsize: Math.ceil((3 * strippedSize + raw.length / 2) / 4), fee}
      expect(electrum).toEqual(found)
      if (hasBitcoind) expect(await waitingAt('node', txid)).toEqual(found)
      return {vsize: found.vsize, fee: Number(fee)}
    }

    async function waitingAt(source: 'electrum' | 'node', txid: string) {
      const settings = readSettings({
        BTC_NETWORK: 'regtest',
        BTC_SOURCE: source,
        BTC_ELECTRUM_URLS: world.bitcoin.electrumUrl,
        BTC_RPC_URL: world.bitcoin.rpcUrl,
      })
      const node = openNode(bitcoinSettings(settings.chains.get('BTC')), pino({level: 'silent'}))
      try {
        expect(await node.waiting('ab'.repeat(32))).toBeUndefined()
        return await node.waiting(txid)
      } finally {
        node.close()
      }
    }
  })

  test('the operator withdraws with the command line, and the audit passes', () => withdrawAndAudit('electrum'), 60_000)
})

describe('with a treasury that has only new coins', () => {
  beforeAll(() => open([]))
  afterAll(close)
  afterEach(() => assertBooks(world.db))

  test('a payout that only new coins of the treasury can pay names the block from which they can be spent, and waits for it', async () => {
    const shop = await world.openShop([3000n])
    world.isMining = false
    const {height} = await world.client.mine(1, {to: world.treasury})
    await world.client.mine(2)
    const id = await world.request(shop, 'BTC')
    expect(await world.becomes(id, 'treasury_immature')).toMatchObject({
      status: 'sweeping',
      waiting_detail: expect.stringContaining(`can be spent from block ${height + 100} on`),
    })
    await world.client.mine(height + 99 - (await world.client.head()).height)
    await until(
      async () => (await world.db.rows(`select from chain.cursor where head_height = $1`, [height + 99])).length,
      {
        timeoutMs: 20_000,
        what: 'the last block but one',
      },
    )
    expect((await world.payout(id)).status).toBe('sweeping')
    world.isMining = true
    const {txid} = await world.becomes(id, 'completed')
    expect(await world.paid(txid!, shop.wallet)).toBe(netOf(3000n))
    expect((await world.attempts((await world.outgoingPayments(id))[0]!.id))[0]!.inputs.length).toBe(2)
  })
})

describe('with an empty treasury', () => {
  beforeAll(() => open([], {BTC_COLLECT_ABOVE: 'BTC:0.01'}))
  afterAll(close)
  afterEach(() => assertBooks(world.db))

  test('a payout whose fee does not cover the network fee waits for the operator to top the treasury up', async () => {
    const shop = await world.openShop([3000n])
    const id = await world.request(shop, 'BTC')
    expect(await world.becomes(id, 'insufficient_treasury_funds')).toMatchObject({status: 'sweeping'})
    await world.topUp([100_000n])
    const {txid} = await world.becomes(id, 'completed')
    expect(await world.paid(txid!, shop.wallet)).toBe(netOf(3000n))
  })

  test("a payout whose fee covers the network fee uses the merchant's money only, and the change belongs to the treasury", async () => {
    const shop = await world.openShop([10_000n, 100_000n, 50_000n])
    const id = await world.request(shop, 'BTC')
    const {txid} = await world.becomes(id, 'completed')
    expect(await world.paid(txid!, shop.wallet)).toBe(netOf(160_000n))
    expect((await spentFor(id)).map(({amount}) => amount)).toEqual([100_000n, 50_000n, 10_000n])
  })

  test("outputs on the addresses of a merchant above the operator's threshold are swept without a payout", async () => {
    const shop = await world.openShop([600_000n, 300_000n, 200_000n])
    await until(
      async () =>
        (
          await world.db.rows(
            `select from app.outgoing_payment where merchant_id = $1 and kind = 'sweep' and outcome = 'done'`,
            [shop.id],
          )
        ).length,
      {timeoutMs: 40_000, what: 'the sweep'},
    )
    expect((await world.outputs()).filter(({merchant_id, spent_by}) => merchant_id === shop.id && !spent_by)).toEqual(
      [],
    )
    const id = await world.request(shop, 'BTC')
    const {txid} = await world.becomes(id, 'completed')
    expect(await world.paid(txid!, shop.wallet)).toBe(netOf(1_100_000n))
  })
})

describe.skipIf(!hasBitcoind)('with a bitcoind as the only source', () => {
  beforeAll(() => open([2n * btc], {BTC_SOURCE: 'node'}))
  afterAll(close)

  test('a payout is paid, and the operator withdraws and audits', async () => {
    const shop = await world.openShop([40_000_000n, 10_000_000n])
    await world.becomes(await world.request(shop, 'BTC'), 'completed')
    await withdrawAndAudit('node')
    await assertBooks(world.db)
  }, 90_000)
})
