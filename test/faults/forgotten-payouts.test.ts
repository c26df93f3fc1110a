// The database is an older copy, and custody's journal is lost: all that is left are the words of the seed. What was
// signed since the copy was made is only on the chains. Everything starts at once, in the worst order: custody and the
// worker before the indexer. Nobody is paid twice, on any chain.
import {execFile} from 'node:child_process'
import {rmSync} from 'node:fs'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {expect, test} from 'vitest'
import {BitcoinWorld, btc} from '../support/bitcoin/world.ts'
import {assertBooks} from '../support/books.ts'
import {dump} from '../support/dump.ts'
import {EvmWorld, ether} from '../support/evm/world.ts'
import type {Indexer} from '../support/indexer.ts'
import {faults} from '../support/rpc-proxy.ts'
import {SolanaWorld, sol} from '../support/solana/world.ts'
import {longLifetimeMs, TronWorld, trx} from '../support/tron/world.ts'
import {until} from '../support/until.ts'
import type {Shop, World} from '../support/world.ts'

const program = fileURLToPath(new URL('../../custody/cli.ts', import.meta.url))

/** A world of any family. */
interface Any {
  world: World & {indexer: Indexer; close(): Promise<void>}
  token: string
  /** What each user pays in. */
  amount: bigint
  openShop(): Promise<Shop>
  received(shop: Shop): Promise<bigint>
}

const ethereum = async (): Promise<Any> => {
  const world = await EvmWorld.open()
  return {
    world,
    token: 'ETH',
    amount: ether,
    openShop: () => world.openShop('ETH', [ether]),
    received: shop => world.received(shop, 'ETH'),
  }
}
const bitcoin = async (): Promise<Any> => {
  const world = await BitcoinWorld.open({treasury: [btc, btc, btc]})
  const received = async ({wallet}: Shop) => {
    const paid = `select txid from chain.confirmed_tx where chain = 'BTC' group by txid`
    const rows = await world.db.rows<{txid: string}>(paid)
    const sums = await Promise.all(rows.map(({txid}) => world.paid(txid, wallet)))
    return sums.reduce((sum, one) => sum + one, 0n)
  }
  return {world, token: 'BTC', amount: btc / 10n, openShop: () => world.openShop([btc / 10n]), received}
}
const tron = async (): Promise<Any> => {
  const world = await TronWorld.open({lifetimeMs: longLifetimeMs})
  const received = async ({wallet}: Shop) => world.holds(wallet)
  return {world, token: 'TRX', amount: 10n * trx, openShop: () => world.openShop([10n * trx]), received}
}

/** What `sluice custody reconcile` says. */
async function reconcile({home, db}: World): Promise<string> {
  const env = {...process.env, SLUICE_HOME: home, DATABASE_URL: db.ownerUrl}
  return (await promisify(execFile)(process.execPath, [program, 'reconcile'], {env})).stdout
}

// Beside each other: each has a world of its own. Solana has the flow of Tron, and a test of its own below.
test.concurrent.for([
  ['Ethereum', ethereum, 'pays'],
  ['Bitcoin', bitcoin, 'pays'],
  ['Tron', tron, 'waits'],
] as const)(
  'on %s, what was paid after the copy is not paid again, and reconcile enters it',
  async ([_, open, what], {onTestFinished}) => {
    const {world, token, amount, openShop, received} = await open()
    onTestFinished(() => world.close())
    const {db} = world
    const net = amount - amount / 100n
    const [paid, waiting, lost] = [await openShop(), await openShop(), await openShop()]
    for (const shop of [paid, waiting]) await world.unlist(shop)
    const [ofPaid, ofWaiting] = [await world.request(paid, token), await world.request(waiting, token)]
    const restore = await dump(db)
    await world.whitelist(paid.id, paid.wallet)
    const worker = await world.startWorker()
    const ofLost = await world.request(lost, token, true)
    const before = [await world.becomes(ofPaid, 'completed'), await world.becomes(ofLost, 'completed')]

    await world.kill(worker)
    await world.killCustody()
    await world.indexer.stop()
    rmSync(path.join(world.home, 'custody', 'journal.jsonl'))
    await restore()
    for (const shop of [waiting, paid]) await world.whitelist(shop.id, shop.wallet)
    await world.startCustody()
    await world.startWorker()
    for (const id of [ofWaiting, ofPaid]) await world.becomes(id, 'copy_unproven')

    world.indexer.start()
    const unknown = `select u.txid, k.id from app.unknown_transaction u join app.incident k on k.id = u.incident_id join chain.cursor c on c.chain = u.chain
    where k.resolved_at is null and u.txid = any($1)
      and exists (select from chain.confirmed_tx i where i.chain = u.chain and i.txid = u.txid and i.block_height <= c.final_height)`
    const txids = before.map(({txid}) => txid)
    const incidents = await until(
      async () => {
        const rows = await db.rows<{txid: string; id: string}>(unknown, [txids])
        return rows.length >= 2 && rows
      },
      {timeoutMs: 60_000, what: 'both payments to be unknown, and final'},
    )
    const keep = db.rows(`select app.resolve_incident($1, 'kept')`, [incidents.find(({txid}) => txid === txids[0])!.id])
    await expect(keep).rejects.toThrow(/payout pay_\w+ still waits .*sluice custody reconcile/)
    const said = await reconcile(world)
    expect(said).toContain(`${before[0]!.txid}: payout pay_${ofPaid.replaceAll('-', '')}`)
    expect(said).toMatch(new RegExp(`${before[1]!.txid}: a payout that this copy does not have: it is pay_`))
    expect((await world.becomes(ofPaid, 'completed')).txid).toBe(before[0]!.txid)
    const again = `select status, gross::text, net::text, txid from app.payout where merchant_id = $1`
    await until(async () => (await db.rows<{status: string}>(again, [lost.id]))[0]?.status === 'completed', {
      timeoutMs: 60_000,
      what: 'the lost payout to be completed',
    })
    expect(await db.rows(again, [lost.id])).toEqual([
      {status: 'completed', gross: String(amount), net: String(net), txid: before[1]!.txid},
    ])
    expect(await db.rows('select from app.balance_now where merchant_id = $1 and amount <> 0', [lost.id])).toEqual([])
    if (what === 'pays') await world.becomes(ofWaiting, 'completed')
    else expect((await world.payout(ofWaiting)).waiting_reason).toBe('copy_unproven')
    expect([await received(paid), await received(lost), await received(waiting)]).toEqual([
      net,
      net,
      what === 'pays' ? net : 0n,
    ])
    expect(await db.rows(`select kind from app.incident where resolved_at is null and kind <> 'audit'`)).toEqual([]) // which saw the copy as it was
    await assertBooks(db)
  },
)

test.concurrent('where transactions expire, what paid a payout again is not a lost payout while the first one may still be mined, but the payout as soon as that is known', async ({
  onTestFinished,
}) => {
  const solana = await SolanaWorld.open()
  onTestFinished(() => solana.close())
  const shop = await solana.openShop([sol])
  solana.isHeld = true
  const worker = await solana.startWorker()
  const payout = await solana.request(shop, 'SOL')
  const [first] = await solana.signed(payout, 1)
  await solana.sent(first!.txid)
  await solana.kill(worker)
  const restore = await dump(solana.db)
  solana.forgetAll()
  const next = await solana.startWorker()
  await solana.holdPastEnd()
  await solana.signed(payout, 2)
  solana.isHeld = false
  const {txid} = await solana.becomes(payout, 'completed')
  await solana.kill(next)
  await solana.killCustody()
  await solana.indexer.stop()
  rmSync(path.join(solana.home, 'custody', 'journal.jsonl'))
  await restore()
  solana.lie('getSignatureStatuses', () => faults.error('history is not available')) // so the end of the first one is not proven
  await solana.startCustody()
  solana.indexer.start()
  const isFinal = `select from app.unknown_transaction u join chain.confirmed_tx i using (chain, txid) join chain.cursor c using (chain) where i.block_height <= c.final_height`
  await until(async () => (await solana.db.rows(isFinal)).length === 1, {
    timeoutMs: 60_000,
    what: 'the payment to be final',
  })
  expect(await solana.attempts(payout)).toMatchObject([{txid: first!.txid, fate: 'open'}])
  expect(await reconcile(solana)).toContain(txid)
  expect(await solana.db.rows('select id from app.payout')).toHaveLength(1)
  const keep = solana.db.rows(
    `select app.resolve_incident(id, 'kept') from app.incident where kind = 'unknown_transaction'`,
  )
  await expect(keep).rejects.toThrow('may have paid what payout')

  solana.node.behave = undefined
  await until(async () => (await solana.attempts(payout)).every(({lapsed}) => lapsed), {
    timeoutMs: 60_000,
    what: 'the first one to be proven dead',
  })
  expect(await reconcile(solana)).toMatch(/payout pay_/)
  solana.mineEmpty(40)
  expect(await solana.becomes(payout, 'completed')).toMatchObject({txid})
  expect(solana.holds(shop.wallet)).toBe(sol - sol / 100n)
  expect(await solana.db.rows('select id from app.payout')).toHaveLength(1)
  await assertBooks(solana.db)
})
