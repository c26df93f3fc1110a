// Payouts on Solana, by real processes: a requested payout arrives once, exactly, whatever the chain, the node and the
// workers do meanwhile. After each test the books are right. What is common to chains whose transactions expire is
// tested with the made-up family.
import type {ChildProcess} from 'node:child_process'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {settingsFrom} from '../../chains/settings.ts'
import {parsePayment} from '../../chains/solana/message.ts'
import {solanaSettings} from '../../chains/solana/settings.ts'
import {newAddress} from '../../devnet/solana/client.ts'
import {faucet} from '../../devnet/solana/constants.ts'
import {addressOfKey, newKey} from '../../devnet/solana/keys.ts'
import {Trouble} from '../../devnet/solana/trouble.ts'
import {solana} from '../../jobs/audit/solana/balances.ts'
import {assertBooks} from '../support/books.ts'
import {faults} from '../support/rpc-proxy.ts'
import {
  closeTokenAccount,
  createTokenAccount,
  initializeTokenAccount,
  tokenProgram,
} from '../support/solana/instructions.ts'
import {SolanaWorld, sol} from '../support/solana/world.ts'
import {until} from '../support/until.ts'
import type {Shop} from '../support/world.ts'

const rent = 650_240n
const fee = 5000n
/** After so many blocks a transaction has expired, and the last of them is final. */
const lifetime = 170
/** Until that is proven, and another one is mined. */
const expiryMs = 40_000

let world: SolanaWorld
let worker: ChildProcess

beforeAll(async () => {
  world = await SolanaWorld.open()
  worker = await world.startWorker()
})
afterAll(async () => {
  await world?.close()
})
afterEach(async () => {
  world.node.behave = undefined
  world.endpoint.trouble = new Trouble()
  world.isHeld = false
  world.isMining = true
  await assertBooks(world.db)
})

const netOf = (gross: bigint) => gross - gross / 100n
const received = ({wallet}: Shop) => world.holds(wallet)

/** A payout whose payment is signed and waits, while blocks come without it. */
async function held(): Promise<{shop: Shop; id: string; txid: string}> {
  const shop = await world.openShop([sol])
  world.isHeld = true
  const id = await world.request(shop, 'SOL')
  const [attempt] = await world.signed(id, 1)
  await world.untilWaiting(attempt!.txid)
  return {shop, id, txid: attempt!.txid}
}

async function paymentIn(txid: string) {
  const [row] = await world.db.rows<{raw: string}>('select raw from app.outgoing_attempt where txid = $1', [txid])
  return parsePayment(row!.raw)
}

// --- without faults ---

test('the treasury advances a payout that it can afford: the net arrives to the last lamport', async () => {
  const shop = await world.openShop([sol])
  const before = world.holds(world.treasury)
  const id = await world.request(shop, 'SOL')
  const payout = await world.becomes(id, 'completed')
  expect([received(shop), BigInt(payout.network_fee)]).toEqual([netOf(sol), fee])
  expect(world.holds(world.treasury)).toBe(before - netOf(sol) - fee)
  expect(await world.outgoingPayments(id)).toMatchObject([{kind: 'payout', status: 'final', outcome: 'done'}])
  expect(await world.reserved()).toBe(0n)
})

test('with sweep_first each address is left without an account, whatever leaders ask for, and may be used again', async () => {
  const shop = await world.openShop([sol, 2n * sol])
  const [address] = shop.addresses
  for (let n = 0; n < 2; n++) {
    if (n) await world.pay([address!], [3n * sol])
    if (n) await world.untilBalance(shop, 3n * sol)
    if (n) world.lie('getRecentPrioritizationFees', () => [{slot: 1, prioritizationFee: 50_000}])
    const {id} = await world.becomes(await world.request(shop, 'SOL', true), 'completed')
    expect(shop.addresses.map(each => world.solana.account(each))).toEqual([undefined, undefined])
    const offers = await world.db.rows<{lamports: string}>(
      `select distinct o.fee_details ->> 'priority_fee' as lamports from app.outgoing_payment s join app.outgoing_attempt o on o.outgoing_payment_id = s.id
       where s.payout_id = $1 and s.kind = 'sweep'`,
      [id],
    )
    expect(offers).toEqual([{lamports: n ? '1000' : '0'}])
  }
  expect(received(shop)).toBe(2n * netOf(3n * sol))
})

test('equal payouts to one address, at the same time, are paid by a transaction each', async () => {
  const shops = [await world.openShop([sol])]
  const {wallet} = shops[0]!
  for (let n = 0; n < 4; n++) shops.push(await world.openShop([sol], {wallet}))
  const ids = await Promise.all(shops.map(shop => world.request(shop, 'SOL')))
  const paid = await Promise.all(ids.map(id => world.becomes(id, 'completed')))
  expect(new Set(paid.map(({txid}) => txid)).size).toBe(5)
  expect(world.holds(wallet)).toBe(5n * netOf(sol))
  const payments = await Promise.all(paid.map(({txid}) => paymentIn(txid!)))
  expect(new Set(payments.map(({computeUnitLimit}) => computeUnitLimit)).size).toBe(5)
})

test('a payment names the newest block that was linked, and ends 151 blocks later', async () => {
  const shop = await world.openShop([sol])
  const {txid} = await world.becomes(await world.request(shop, 'SOL'), 'completed')
  const {blockhash} = await paymentIn(txid!)
  const [journalled] = await world.db.rows<{lifetime_end: string}>(
    'select lifetime_end from custody.journal where txid = $1',
    [txid],
  )
  expect(Number(journalled!.lifetime_end)).toBe(world.solana.journal.heightOfHash(blockhash)! + 151)
})

test('lamports that a program moves without a transfer are a deposit', async () => {
  const shop = await world.makeShop(1, newAddress())
  const [to] = shop.addresses
  const key = newKey()
  const account = addressOfKey(key)
  world.submit(
    [
      createTokenAccount(faucet, account, 3n * sol),
      initializeTokenAccount(account, faucet),
      closeTokenAccount(account, to!, faucet),
    ],
    [key],
  )
  await world.untilBalance(shop, 3n * sol)
  await world.becomes(await world.request(shop, 'SOL', true), 'completed')
  expect([received(shop), world.solana.account(to!)]).toEqual([netOf(3n * sol), undefined])
})

// --- who can be paid, and from what ---

/** A payout that waits for a reason that stays one, with what it says, and that fails for it. */
async function refused(shop: Shop, amount: bigint, reason: string, detail: string): Promise<void> {
  const id = await world.request(shop, 'SOL')
  const {waiting_detail} = await world.becomes(id, reason)
  expect(waiting_detail).toMatch(detail)
  const {error_code} = await world.agedUntilFailed(id, reason)
  expect([error_code, await world.attempts(id)]).toEqual([reason, []])
  await world.untilBalance(shop, amount)
}

test('neither a program nor, with less than the rent, a new account is paid: nothing is signed, and the balance is back', async () => {
  const key = newKey()
  const wallet = addressOfKey(key)
  world.submit([createTokenAccount(faucet, wallet, sol)], [key])
  await until(async () => world.holds(wallet), {timeoutMs: 5000, what: 'the account of a program'})
  const little = rent + 1000n // its net is below the rent
  const [program, fresh] = [await world.openShop([sol], {wallet}), await world.openShop([little])]
  await Promise.all([
    refused(program, sol, 'destination_not_payable', tokenProgram),
    refused(fresh, little, 'below_rent_exempt', `no less than ${rent} lamports`),
  ])
})

test('less than the rent arrives where there is an account', async () => {
  const shop = await world.openShop([rent + 1000n])
  world.giveTo(shop.wallet, sol)
  await until(async () => received(shop) === sol, {timeoutMs: 5000, what: 'an account'})
  await world.becomes(await world.request(shop, 'SOL'), 'completed')
  expect(received(shop)).toBe(sol + netOf(rent + 1000n))
})

test('an address that has just received dust is swept when that is final, and left empty', async () => {
  const shop = await world.openShop([sol])
  const [address] = shop.addresses
  world.isMining = false // the dust does not become final
  world.giveTo(address!, 1000n)
  world.solana.mine(1)
  expect(world.holds(address!)).toBe(sol + 1000n)
  const id = await world.request(shop, 'SOL', true)
  const {waiting_detail} = await world.becomes(id, 'sweeps')
  expect([waiting_detail, await world.outgoingPayments(id)]).toEqual(['an address has just changed', []])
  world.isMining = true
  await world.becomes(id, 'completed')
  expect([received(shop), world.solana.account(address!)]).toEqual([netOf(sol), undefined])
  const sweeps = (await world.outgoingPayments(id)).filter(({kind}) => kind === 'sweep')
  expect(sweeps.map(({outcome}) => outcome)).toEqual(['done'])
})

test('a sweep that a node says would fail is not signed, and another one is begun that takes all', async () => {
  const shop = await world.openShop([sol])
  const [address] = shop.addresses
  await world.kill(worker)
  const doomed = await world.startWorker({crashAt: 'sweep: after begin'})
  const id = await world.request(shop, 'SOL', true)
  await until(async () => doomed.signalCode, {timeoutMs: 20_000, what: 'the worker to die'})
  world.giveTo(address!, 1000n) // this would be left, which is less than the rent
  const isFinal = `select from app.holding where address = $1 and amount = $2`
  await until(async () => (await world.db.rows(isFinal, [address, String(sol + 1000n)])).length, {
    timeoutMs: 20_000,
    what: 'what arrived to be final',
  })
  worker = await world.startWorker()
  await world.becomes(id, 'completed')
  expect([received(shop), world.solana.account(address!)]).toEqual([netOf(sol), undefined])
  const sweeps = (await world.outgoingPayments(id)).filter(({kind}) => kind === 'sweep')
  expect(sweeps.map(({outcome}) => outcome).sort()).toEqual(['cancelled', 'done'])
  const [failed] = await world.db.rows<{failure: string; attempts: number}>(
    `select s.failure, (select count(*)::int from custody.journal j where j.subject_id = s.id) as attempts
     from app.outgoing_payment s where s.payout_id = $1 and s.outcome = 'cancelled'`,
    [id],
  )
  expect(failed).toEqual({
    failure: 'the node says: {"InsufficientFundsForRent":{"account_index":1}}',
    attempts: 0,
  })
})

test('a sweep that would fail because of the treasury waits, and is done when the treasury has what it must keep', async () => {
  const shop = await world.openShop([sol])
  let answers = 0
  world.lie('simulateTransaction', async pass => {
    if (answers++) return await pass()
    return {context: {slot: 1}, value: {err: {InsufficientFundsForRent: {account_index: 0}}, logs: []}}
  })
  const id = await world.request(shop, 'SOL', true)
  await world.becomes(id, 'completed')
  const sweeps = (await world.outgoingPayments(id)).filter(({kind}) => kind === 'sweep')
  expect([answers > 1, sweeps.map(({outcome}) => outcome)]).toEqual([true, ['done']])
})

// --- the node ---

test('a node that simulates nothing stops no sweep', async () => {
  const shop = await world.openShop([sol, sol])
  world.lie('simulateTransaction', () => faults.error('Method not found', -32_601))
  await world.becomes(await world.request(shop, 'SOL', true), 'completed')
})

test.each<[string, () => unknown]>([
  ['has no response', () => faults.drop()],
  ['has an error', () => faults.error('node is behind')],
  ['is an error of the server', () => faults.status(502)],
])('a payment that the node takes, and whose response %s, is paid once', async (_, answer) => {
  const shop = await world.openShop([sol])
  world.lie('sendTransaction', async pass => {
    await pass()
    return answer()
  })
  const id = await world.request(shop, 'SOL')
  const {txid} = await world.becomes(id, 'completed')
  expect([received(shop), (await world.attempts(id)).map(({txid}) => txid)]).toEqual([netOf(sol), [txid]])
})

test('a payment that the node refuses stays open until it expires, and is signed again once, for a higher fee', async () => {
  const shop = await world.openShop([sol])
  const refused = new Set<unknown>()
  world.node.behave = ({method, params: [raw]}, pass) => {
    if (method !== 'sendTransaction') return pass()
    if (!refused.size) refused.add(raw)
    return refused.has(raw) ? faults.error('Transaction simulation failed: Blockhash not found') : pass()
  }
  const id = await world.request(shop, 'SOL')
  await world.signed(id, 1)
  world.mineEmpty(lifetime)
  const {txid} = await world.becomes(id, 'completed', expiryMs)
  const attempts = await world.attempts(id)
  expect(attempts.map(({fate, lapsed}) => [fate, lapsed])).toEqual([
    ['dead', true],
    ['final', false],
  ])
  const [first, second] = await Promise.all(attempts.map(({txid}) => paymentIn(txid)))
  expect([first!.priorityFee, second!.priorityFee]).toEqual([0n, 1000n])
  expect([attempts[1]!.txid, received(shop)]).toEqual([txid, netOf(sol)])
})

test('the same bytes are sent every two seconds, so a payment that every leader forgot is mined', async () => {
  const {shop, id, txid} = await held()
  world.solana.forget([txid])
  await world.untilWaiting(txid)
  world.isHeld = false
  const payout = await world.becomes(id, 'completed')
  expect([payout.txid, received(shop)]).toEqual([txid, netOf(sol)])
})

// --- time ---

test('a payment that no block of 170 takes expires, and is signed again once, with other bytes', async () => {
  const {shop, id, txid} = await held()
  world.mineEmpty(lifetime)
  const [dead, second] = await world.signed(id, 2)
  expect(dead).toEqual({txid, fate: 'dead', lapsed: true})
  world.isHeld = false
  const payout = await world.becomes(id, 'completed')
  expect([payout.txid, received(shop)]).toEqual([second!.txid, netOf(sol)])
  const [lapse] = await world.db.rows<{evidence: {final: unknown[]; account: {transactions: number}}}>(
    'select evidence from chain.lapse where txid = $1',
    [txid],
  )
  expect(lapse!.evidence.final).toHaveLength(2)
})

/** The height of the last block that may hold it. */
async function endOf(txid: string): Promise<number> {
  const {blockhash} = await paymentIn(txid)
  return world.solana.lastBlockFor(blockhash)!
}

test('the very last block that may hold a payment holds it: it is paid, and nothing else is signed', async () => {
  const {shop, id, txid} = await held()
  world.isMining = false
  world.mineEmpty((await endOf(txid)) - world.solana.head.height - 1)
  await world.untilWaiting(txid)
  world.solana.mine(1)
  world.isMining = true
  const payout = await world.becomes(id, 'completed')
  expect([payout.txid, received(shop)]).toEqual([txid, netOf(sol)])
  expect(await world.attempts(id)).toMatchObject([{fate: 'final'}])
})

test('a block after the end does not hold it, whoever keeps the bytes', async () => {
  const {shop, id, txid} = await held()
  const {signatures: _, ...kept} = await paymentIn(txid)
  const [{raw} = {raw: ''}] = await world.db.rows<{raw: string}>(
    'select raw from app.outgoing_attempt where txid = $1',
    [txid],
  )
  world.isMining = false
  world.mineEmpty((await endOf(txid)) - world.solana.head.height)
  world.solana.submit(Buffer.from(raw, 'hex'))
  world.isMining = true
  world.isHeld = false
  const payout = await world.becomes(id, 'completed', expiryMs)
  expect(payout.txid).not.toBe(txid)
  expect([world.solana.journal.heightOf(txid), received(shop)]).toEqual([undefined, netOf(sol)])
  expect(kept.to).toBe(shop.wallet)
})

test('nothing is signed while the indexer is behind the node', async () => {
  const shop = await world.openShop([sol])
  await world.indexer.stop()
  world.solana.mine(100)
  const id = await world.request(shop, 'SOL')
  const {waiting_detail} = await world.becomes(id, 'head_stale')
  expect(waiting_detail).toMatch('blocks behind the node')
  expect(await world.attempts(id)).toEqual([])
  world.indexer.start()
  await world.becomes(id, 'completed')
  expect(received(shop)).toBe(netOf(sol))
})

test('nothing is signed again while the indexer is behind the node', async () => {
  const {shop, id} = await held()
  await world.kill(worker)
  world.mineEmpty(lifetime)
  await until(async () => (await world.attempts(id)).every(({lapsed}) => lapsed), {
    timeoutMs: 20_000,
    what: 'the payment to expire',
  })
  await world.indexer.stop()
  world.mineEmpty(100)
  worker = await world.startWorker()
  await until(async () => (await world.waitsFor(id)) === 'head_stale', {timeoutMs: 20_000, what: 'the payment to wait'})
  expect(await world.attempts(id)).toHaveLength(1)
  world.indexer.start()
  world.isHeld = false
  await world.becomes(id, 'completed', expiryMs)
  expect(received(shop)).toBe(netOf(sol))
})

// --- what a lapse rests on ---

test('a node that leaves out another payment of the treasury proves nothing: nothing is signed again', async () => {
  const {shop, id, txid} = await held()
  world.isHeld = false
  world.solana.forget([txid])
  const other = await world.openShop([sol])
  world.node.behave = ({method, params: [raw]}, pass) =>
    method === 'sendTransaction' && parsePayment(Buffer.from(String(raw), 'base64').toString('hex')).txid === txid
      ? faults.error('no')
      : pass()
  const {txid: omitted} = await world.becomes(await world.request(other, 'SOL'), 'completed')
  world.endpoint.trouble = new Trouble({without: [omitted!]})
  world.mineEmpty(lifetime)
  await world.untilPast(await endOf(txid))
  await world.untilUnproven(txid, 'have a gap')
  expect((await world.attempts(id)).map(({fate}) => fate)).toEqual(['open'])
  world.endpoint.trouble = new Trouble()
  await world.becomes(id, 'completed', expiryMs)
  expect(received(shop)).toBe(netOf(sol))
})

test('a node that says that it knows the transaction prevents another signature', async () => {
  const {shop, id, txid} = await held()
  world.lie('getSignatureStatuses', async pass => {
    const answered = (await pass()) as {value: unknown[]}
    return {...answered, value: [{slot: 1, err: null, confirmationStatus: 'finalized'}, ...answered.value.slice(1)]}
  })
  world.mineEmpty(lifetime)
  await world.untilPast(await endOf(txid))
  await world.untilUnproven(txid, 'a node knows the transaction')
  expect((await world.attempts(id)).map(({fate}) => fate)).toEqual(['open'])
  world.node.behave = undefined
  world.isHeld = false
  await world.becomes(id, 'completed', expiryMs)
  expect(received(shop)).toBe(netOf(sol))
})

// --- forks ---

test('a payment whose block leaves the chain is mined again, with the same bytes', async () => {
  const {shop, id, txid} = await held()
  world.isMining = false
  world.isHeld = false
  world.solana.mine(1)
  expect(received(shop)).toBe(netOf(sol))
  world.solana.reorg(1)
  expect(received(shop)).toBe(0n)
  world.isMining = true
  const payout = await world.becomes(id, 'completed', expiryMs)
  expect(received(shop)).toBe(netOf(sol))
  expect((await world.attempts(id)).filter(({fate}) => fate === 'final')).toMatchObject([{txid: payout.txid}])
  expect((await world.attempts(id))[0]!.txid).toBe(txid)
})

// --- processes ---

test('a worker that dies before it stored what custody signed leaves one transaction', async () => {
  const shop = await world.openShop([sol])
  await world.kill(worker)
  const doomed = await world.startWorker({crashAt: 'send: after sign'})
  const id = await world.request(shop, 'SOL')
  await until(async () => doomed.signalCode, {timeoutMs: 20_000, what: 'the worker to die'})
  world.isMining = false // it does not expire meanwhile
  const [signed] = await world.signed(id, 1)
  worker = await world.startWorker()
  await world.untilWaiting(signed!.txid)
  world.isMining = true
  const {txid} = await world.becomes(id, 'completed')
  expect([txid, received(shop)]).toEqual([signed!.txid, netOf(sol)])
})

// --- the audit ---

const audited = () => solana.ask(world.db.pool as never, solanaSettings(settingsFrom('SOL', world.environment)))

test('the audit finds that every address holds what the ledger says, and one that does not', async () => {
  await world.openShop([sol])
  const asked = audited()
  const rows = await world.db.rows<{address: string}>(
    `select a.address from custody.address a left join app.holding h on h.address = a.address and h.amount > 0
     where a.family = 'solana' order by h.amount nulls last limit $1`,
    [asked.batch - 1],
  )
  const addresses = [...rows.map(({address}) => address), newAddress()]
  expect(await asked.poll(addresses)).toEqual({height: expect.any(Number), differences: [], unread: []})
  expect(await asked.heightAt(new Date(0))).toBeUndefined()
  expect(await asked.heightAt(new Date(Date.now() + 7_200_000))).toBeGreaterThan(0)
  const some = rows[0]
  const {address} = some!
  const chain = world.holds(address)
  const add = (amount: string) =>
    world.db.rows('update app.holding set amount = amount + $1 where address = $2', [amount, address])
  await add('1')
  const {differences} = await asked.poll(addresses)
  await add('-1')
  expect(differences).toEqual([{address, token: 'SOL', outpoint: '', ledger: chain + 1n, chain}])
})

test('what moves while the audit reads is no difference', async () => {
  const shop = await world.openShop([sol])
  const asked = audited()
  const id = await world.request(shop, 'SOL', true)
  for (let n = 0; n < 10; n++) {
    const {differences} = await asked.poll([world.treasury, ...shop.addresses])
    expect(differences).toEqual([])
  }
  await world.becomes(id, 'completed')
  const [address] = shop.addresses
  let reads = 0
  world.lie('getMultipleAccounts', async pass => {
    const read = await pass()
    if (++reads === 1) await world.pay([address!], [sol]) // after the node's answer, and final before it is compared
    return read
  })
  expect(await asked.poll([address!])).toMatchObject({differences: [], unread: []})
  expect(reads).toBe(2)
})
