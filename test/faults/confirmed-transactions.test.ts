// Our own transactions on a real chain, read by the real indexer. Each is seen with its effect and its cost, through
// reorganisations, and is posted once when it is final. An unknown one stops the chain's payouts. Transfers to the
// treasury belong to the operator, once. The test replaces the worker and custody: it signs with keys that the node
// knows, and stores the rows that they would store.
import {encodeFunctionData, type Hex, keccak256} from 'viem'
import {afterAll, afterEach, beforeAll, expect, test} from 'vitest'
import {accounts} from '../../devnet/evm/constants.ts'
import {assertBooks} from '../support/books.ts'
import {type TestDatabase, testDatabase} from '../support/database.ts'
import {Anvil, abis, localChainId} from '../support/evm/anvil.ts'
import {Indexer} from '../support/indexer.ts'
import {makeMerchant} from '../support/people.ts'

const gwei = 10n ** 9n
const ether = 10n ** 18n
const finalDepth = 8

/** An address of ours, and the index of its key at the node. */
const [treasury, holder] = [accounts[3]!, accounts[4]!]
const recipient = '0x52908400098527886E0F7030069857D2E4169EE7'

let db: TestDatabase
let anvil: Anvil
let indexer: Indexer
let merchantId: string

beforeAll(async () => {
  ;[db, anvil] = await Promise.all([testDatabase(), Anvil.start()])
  merchantId = await makeMerchant(db, ['ETH'])
  await db.rows(
    `with own as (
       insert into custody.address (address, family, purpose, derivation_index, taken_at, merchant_id)
       values ($1, 'evm', 'treasury', 0, null, null), ($2, 'evm', 'deposit', 0, now(), $3)
     ), customer as (insert into app.user (merchant_id, external_ref) values ($3, 'holder') returning id)
     insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
     select 'ETH', lower($2), $2, id, $3, true from customer`,
    [treasury.address, holder.address, merchantId],
  )
  await db.rows(`select custody.watch_treasury('evm'), app.set_payout_address($1, 'ETH', $2)`, [merchantId, recipient])
  for (const {address} of [treasury, holder]) await anvil.call('anvil_setBalance', [address, '0x0'])
  indexer = Indexer.start({db, rpcUrl: anvil.wsUrl, settings: {USDC_CONTRACT: anvil.usdc}})
})
afterAll(async () => {
  await indexer?.stop()
  await anvil?.stop()
  await db?.drop()
})
afterEach(() => assertBooks(db))

async function mined(blocks = 1): Promise<number> {
  const head = await anvil.mine(blocks)
  await indexer.reaches(head)
  return head.height
}

/** Makes everything final that was mined, or waits to be. */
async function finalised(): Promise<void> {
  const height = await mined(1 + finalDepth)
  await indexer.finalises(height - finalDepth)
}

async function reorg(depth: number, keep?: Record<number, string[]>): Promise<void> {
  await indexer.reaches(await anvil.reorg(depth, keep))
}

interface Call {
  to: string
  value?: bigint
  data?: Hex
}

/**
 * Signs a transaction of an outgoing payment and stores it, in custody's journal and as an attempt, before broadcasting
 * it.
 */
async function sign(
  outgoingPayment: string,
  account: typeof treasury,
  {to, value = 0n, data}: Call,
): Promise<{txid: string; raw: string}> {
  const [row] = await db.rows<{nonce: number}>('select nonce from app.outgoing_payment where id = $1', [
    outgoingPayment,
  ])
  const fees = {maxFeePerGas: 20n * gwei, maxPriorityFeePerGas: gwei, gas: data ? 120_000n : 21_000n}
  const raw = await account.signTransaction({
    chainId: localChainId,
    type: 'eip1559',
    nonce: row!.nonce,
    to: to as Hex,
    value,
    data,
    ...fees,
  })
  const txid = keccak256(raw)
  await db.rows(
    `insert into custody.journal (stream, seq, kind, subject_id, token, amount, destination, source, sender, nonce, txid, signed_at, hash)
     select chain, (select count(*) + 1 from custody.journal), case when kind = 'sweep' then 'sweep' else 'pay' end,
       case when kind = 'sweep' then id else payout_id end, token, amount, recipient, source, fee_payer, nonce, $2, now(), ''
     from app.outgoing_payment where id = $1`,
    [outgoingPayment, txid],
  )
  await db.rows(
    `select app.store_signed(id, 1, 'effect', $2, $3, amount, max_fee, $4) from app.outgoing_payment where id = $1`,
    [
      outgoingPayment,
      txid,
      raw,
      {
        max_fee_per_gas: String(fees.maxFeePerGas),
        max_priority_fee_per_gas: String(fees.maxPriorityFeePerGas),
        gas_limit: String(fees.gas),
      },
    ],
  )
  return {txid, raw}
}

/** A payout of the merchant's whole balance of a token, with a nonce for its payment. */
async function beginToPay(token: string): Promise<{payout: string; outgoingPayment: string; net: bigint}> {
  await db.rows(`select app.create_payout($1, 'ETH', $2, false, null, null)`, [merchantId, token])
  const [{id, net}] = (await db.rows('select id, net from app.payout order by seq desc limit 1')) as [
    {id: string; net: string},
  ]
  await db.rows('select app.begin_sweeping($1)', [id])
  await db.rows('select app.end_sweeping($1)', [id])
  const [begun] = await db.rows('select app.begin_payment($1, $2) as short', [id, 20n * gwei * 120_000n])
  expect(begun).toEqual({short: null})
  const [{outgoingPayment}] = (await db.rows(
    `select id as "outgoingPayment" from app.outgoing_payment where payout_id = $1`,
    [id],
  )) as [{outgoingPayment: string}]
  return {payout: id, outgoingPayment, net: BigInt(net)}
}

/** The rows of the indexer for a transaction. */
async function confirmedTx(txid: string) {
  const [row] = await db.rows<{height: number; account: string; nonce: number; success: boolean; fee: string}>(
    'select block_height as height, account, nonce, success, fee from chain.confirmed_tx where txid = $1',
    [txid],
  )
  return row
}

async function costOf(txid: string): Promise<string> {
  const {gasUsed, effectiveGasPrice} = await anvil.call<{gasUsed: Hex; effectiveGasPrice: Hex}>(
    'eth_getTransactionReceipt',
    [txid],
  )
  return String(BigInt(gasUsed) * BigInt(effectiveGasPrice))
}

const payoutOf = async (id: string) =>
  (await db.rows('select status, txid, network_fee, error_code from app.payout where id = $1', [id]))[0]

/** What the treasury and the address hold, by the ledger and by the chain. */
async function holdings(): Promise<{ledger: bigint[]; chain: bigint[]}> {
  const [row] = await db.rows<{treasury: string; holder: string; usdc: string}>(
    `select (select balance from app.treasury where token = 'ETH') as treasury,
       coalesce((select sum(amount) from app.holding where token = 'ETH'), 0) as holder,
       coalesce((select balance from app.treasury where token = 'USDC'), 0) as usdc`,
  )
  return {
    ledger: [row!.treasury, row!.holder, row!.usdc].map(BigInt),
    chain: [
      await anvil.balance(treasury.address),
      await anvil.balance(holder.address),
      await anvil.tokenBalance(treasury.address),
    ],
  }
}

test("a transfer to the treasury is posted once when it is final, as the operator's, through a reorganisation", async () => {
  const txid = await anvil.send({to: treasury.address, value: 10n * ether})
  await mined()
  const raw = await anvil.raw(txid)
  await mined(2)
  await reorg(3, {2: [raw]})
  await indexer.restart()
  await anvil.sendUsdc(treasury.address, 1_000_000n)
  await mined()
  const entries = () =>
    db.rows(`select kind, account, token, merchant_id, amount from app.ledger_entry order by token, amount desc`)
  expect(await entries()).toEqual([])
  await finalised()
  const topUp = {kind: 'top_up', merchant_id: null}
  expect(await entries()).toEqual([
    {...topUp, account: 'treasury', token: 'ETH', amount: String(10n * ether)},
    {...topUp, account: 'operator', token: 'ETH', amount: String(-10n * ether)},
    {...topUp, account: 'treasury', token: 'USDC', amount: '1000000'},
    {...topUp, account: 'operator', token: 'USDC', amount: '-1000000'},
  ])
  const {ledger, chain} = await holdings()
  expect(ledger).toEqual(chain)
  expect(await db.rows('select * from app.event')).toEqual([])
})

test('a transaction of ours follows the chain through reorganisations, and is posted once when it is final', async () => {
  await anvil.send({to: holder.address, value: ether})
  await finalised()
  const {payout, outgoingPayment, net} = await beginToPay('ETH')
  const {txid, raw} = await sign(outgoingPayment, treasury, {to: recipient, value: net})
  await anvil.resend(raw)
  const height = await mined()
  const seen = {height, account: treasury.address, nonce: 0, success: true, fee: await costOf(txid)}
  expect(await confirmedTx(txid)).toEqual(seen)
  expect(await payoutOf(payout)).toMatchObject({status: 'paying', txid: null})

  await mined()
  await reorg(2)
  expect(await confirmedTx(txid)).toBeUndefined()
  expect(await payoutOf(payout)).toMatchObject({status: 'paying', txid: null})
  await anvil.resend(raw)
  const again = await mined()
  expect(await confirmedTx(txid)).toMatchObject({height: again, success: true})
  await mined()
  await reorg(2, {1: [raw]})
  expect(await confirmedTx(txid)).toMatchObject({height: again + 1, success: true})
  await indexer.restart()

  await finalised()
  const fee = await costOf(txid)
  expect(await payoutOf(payout)).toEqual({status: 'completed', txid, network_fee: fee, error_code: null})
  expect(await db.rows('select type from app.event where subject_id = $1', [payout])).toEqual([
    {type: 'payout.completed'},
  ])
  expect(await anvil.balance(recipient)).toBe(net)
  expect(await db.rows('select * from app.incident')).toEqual([])
  const {ledger, chain} = await holdings()
  expect(ledger).toEqual(chain)
})

test("a sweep brings the money to the treasury as the merchant's, and not as a top-up", async () => {
  const [held] = await db.rows<{amount: string}>(`select amount from app.holding where token = 'ETH'`)
  const cost = 20n * gwei * 21_000n
  const amount = BigInt(held!.amount) - cost
  await db.rows(`select app.begin_sweeps(null, 'ETH', 'ETH', array[$1], array[$2::numeric], array[$3::numeric])`, [
    holder.address,
    amount,
    cost,
  ])
  const [outgoingPayment] = await db.rows<{id: string}>(`select id from app.outgoing_payment where kind = 'sweep'`)
  const {txid, raw} = await sign(outgoingPayment!.id, holder, {to: treasury.address, value: amount})
  await anvil.resend(raw)
  await mined()
  expect(await confirmedTx(txid)).toMatchObject({account: holder.address, nonce: 0, success: true})
  await finalised()
  expect(
    await db.rows('select outcome, fee_paid from app.outgoing_payment where id = $1', [outgoingPayment!.id]),
  ).toEqual([{outcome: 'done', fee_paid: await costOf(txid)}])
  expect(await db.rows('select id from app.deposit where txid = $1', [txid])).toEqual([])
  const {ledger, chain} = await holdings()
  expect(ledger).toEqual(chain)
})

test('a successful token payment is done; one that is reverted fails its payout, and restores the balance', async () => {
  const transfer = (to: string, amount: bigint) =>
    encodeFunctionData({abi: abis.usdc, functionName: 'transfer', args: [to, amount]})
  for (const [amount, sent, end] of [
    [400_000n, undefined, {status: 'completed', error_code: null}],
    [500_000n, 10n ** 9n, {status: 'failed', error_code: 'transaction_reverted'}],
  ] as const) {
    await anvil.sendUsdc(holder.address, amount)
    await finalised()
    const {payout, outgoingPayment, net} = await beginToPay('USDC')
    const {txid, raw} = await sign(outgoingPayment, treasury, {to: anvil.usdc, data: transfer(recipient, sent ?? net)})
    await anvil.resend(raw)
    await mined()
    expect(await confirmedTx(txid)).toMatchObject({success: end.status === 'completed'})
    await finalised()
    expect(await payoutOf(payout)).toMatchObject({...end, network_fee: await costOf(txid)})
  }
  const [balance] = await db.rows(`select amount from app.balance_now where token = 'USDC'`)
  expect(balance).toEqual({amount: '500000'})
  const {ledger, chain} = await holdings()
  expect(ledger).toEqual(chain)
})

test('a token payment that moves another amount than signed is not done, even if the node reports success', async () => {
  const {payout, outgoingPayment} = await beginToPay('USDC')
  const data = encodeFunctionData({abi: abis.usdc, functionName: 'transfer', args: [recipient, 1n]})
  const {txid, raw} = await sign(outgoingPayment, treasury, {to: anvil.usdc, data})
  await anvil.resend(raw)
  await mined()
  expect(await anvil.call('eth_getTransactionReceipt', [txid])).toMatchObject({status: '0x1'})
  expect(await confirmedTx(txid)).toMatchObject({success: false})
  await finalised()
  expect(await payoutOf(payout)).toMatchObject({status: 'failed', error_code: 'transaction_reverted'})
})

test('an unknown transaction from an address of ours opens one incident, which stops the payouts of the chain', async () => {
  const whyHalted = async () => (await db.rows<{why: string | null}>(`select app.why_halted('ETH') as why`))[0]!.why
  expect(await whyHalted()).toBeNull()
  const txid = await anvil.send({by: 3, to: recipient, value: 1n})
  await mined()
  expect(await confirmedTx(txid)).toMatchObject({account: treasury.address, success: true})
  expect(await whyHalted()).toMatch(/^incident \d+ \(unknown_transaction\) waits for the operator$/)
  await expect(
    db.rows(`select app.create_payout($1, 'ETH', 'USDC', false, null, null)`, [merchantId]),
  ).rejects.toMatchObject({
    code: 'SLPAY',
  })

  const raw = await anvil.raw(txid)
  await mined()
  await reorg(2, {1: [raw]})
  await indexer.restart()
  await finalised()
  const incidents = () => db.rows('select id, kind, subject, details, resolution from app.incident')
  const [incident, ...others] = (await incidents()) as {id: string}[]
  expect([incident, others]).toMatchObject([
    {
      kind: 'unknown_transaction',
      subject: `ETH:${treasury.address}`,
      details: {count: 1, newest: txid},
      resolution: null,
    },
    [],
  ])
  await db.rows(`select app.resolve_incident($1, 'kept')`, [incident!.id])
  await indexer.restart()
  await mined()
  expect(await whyHalted()).toBeNull()
  expect(await incidents()).toHaveLength(1)
})

test('an indexer that catches up writes the same about each transaction as one that followed the head', async () => {
  await mined(150) // further than the indexer reads block by block
  const again = Indexer.start({db, rpcUrl: anvil.httpUrl, chain: 'POLYGON', settings: {TRACES: 'off'}})
  try {
    await again.reaches(await anvil.block())
  } finally {
    await again.stop()
  }
  const sent = (chain: string) =>
    db.rows(
      `select txid, block_height, block_hash, block_time, account, nonce, fee, success
       from chain.confirmed_tx where chain = $1 and txid not in (select txid from custody.journal where token = 'USDC') order by id`,
      [chain],
    )
  expect(await sent('POLYGON')).toEqual(await sent('ETH'))
  expect((await sent('ETH')).length).toBe(3)
  expect(indexer.ends).toEqual([])
})
