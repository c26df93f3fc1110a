// What may happen in a history: what users, operators, the service's processes, the chain, and a thief in the worker's
// place do. Each command has two numbers, which choose among what there is at that moment, so that a shorter history is
// still one. Promises: a command that finds nothing to do does nothing; what the service refuses is counted, not an
// error.
import {randomUUID} from 'node:crypto'
import type {LapseSource} from '../../indexers/lapses.ts'
import {faucet, spendsOutputs, type Transaction} from './chain.ts'
import {assertThat, check} from './invariants.ts'
import type {Wanted} from './kinds.ts'
import {decide} from './operator.ts'
import {follow, rewindTo, tryTo} from './reading.ts'
import {deposit, deposited, operator, type World} from './world.ts'

export type Command = (world: World, a: number, b: number) => Promise<unknown>

/** The step labels at which a process can die, as far as these families reach them. */
export const crashLabels = [
  'payout: before check',
  'payout: before begin_sweeping',
  'sweep: before begin',
  'sweep: after begin',
  'payment: before begin',
  'payment: after begin',
  'send: before sign',
  'send: before replace',
  'send: after sign',
  'send: after store',
  'send: before broadcast',
  'send: after broadcast',
  'custody: before journal',
  'custody: judged',
  'custody: after database',
  'custody: after file',
  'custody: before answer',
] as const

export const isIn = (bits: number, place: number): boolean => ((bits >>> (place % 30)) & 1) === 1
const pick = <T>(all: readonly T[], n: number): T | undefined => (all.length ? all[n % all.length] : undefined)

// --- users and operators ---

const request: Command = (world, a, b) =>
  tryTo(world, 'payouts requested', () =>
    world.db.rows('select app.create_payout($1, $2, $3, $4, null, null)', [
      pick(world.start.merchants, a)!.id,
      world.kind.chain,
      world.kind.token,
      b % 5 === 0,
    ]),
  )

const withdraw: Command = (world, a) => {
  const amount = BigInt(10 + (a % 50)) * world.kind.unit
  return tryTo(world, 'withdrawals requested', async () => {
    if (world.kind.withdraw) return await world.kind.withdraw(world.db.pool, world.base.settings, amount)
    return await world.db.rows('select app.begin_withdrawal($1, $2, $3, $4, $5)', [
      world.kind.chain,
      world.kind.token,
      String(amount),
      world.kind.outsider(operator),
      String(world.kind.fee),
    ])
  })
}

const pay: Command = async (world, a) => {
  world.deposits += 1
  const {address} = pick(world.start.merchants, a)!
  const transaction = deposit(world.kind, `deposit ${world.deposits}`, address, deposited)
  world.chain.pool.set(transaction.txid, transaction)
}

/** Sweeps that no payout needs. */
const sweep: Command = async (world, a, b) => {
  const {id, address} = pick(world.start.merchants, a)!
  const {chain, token, fee} = world.kind
  if (world.kind.rules === spendsOutputs) {
    const [free] = await world.db.rows<{outpoints: string[] | null}>(
      `select array_agg(txid || ':' || vout) as outpoints from app.free_output where chain = $1 and merchant_id = $2`,
      [chain, id],
    )
    if (free?.outpoints)
      await world.call(
        'begin_output_sweep',
        null,
        chain,
        id,
        free.outpoints,
        String(fee * BigInt(free.outpoints.length)),
      )
    return
  }
  const [held] = await world.db.rows<{amount: string}>(
    'select amount from app.holding where chain = $1 and address = $2 and token = $3',
    [chain, address, token],
  )
  const amount = BigInt(held?.amount ?? 0) - (world.kind.native ? 0n : fee)
  if (amount <= 0n) return
  if (world.kind.coinFee && b % 2)
    return await world.call(
      'begin_funds',
      null,
      chain,
      token,
      [address],
      [String(fee * BigInt(1 + (b % 3)))],
      String(fee),
    )
  await world.call('begin_sweeps', null, chain, token, [address], [String(amount)], [String(fee)])
}

/** More gas than an address needs, so that some of it goes back. */
export async function sendGas(world: World): Promise<void> {
  const {chain, token, fee} = world.kind
  const {address} = world.start.merchants[0]!
  await world.call('begin_funds', null, chain, token, [address], [String(4n * fee)], String(fee))
}

/** As if addresses had used none of their gas for 31 days. */
export const bringGasBack: Command = async world => {
  const {chain, coinFee} = world.kind
  if (coinFee === undefined) return
  const idle = await world.db.rows<{address: string; amount: string}>(
    `update app.gas set used_at = used_at - interval '31 days' where chain = $1 and amount >= 3 * $2::numeric
     returning address, (amount - $2::numeric)::text as amount`,
    [chain, String(coinFee)],
  )
  for (const {address, amount} of idle) await world.call('begin_defunds', chain, [address], [amount], [String(coinFee)])
}

/** Energy that was lent is taken back; sometimes as if it had been lent ten minutes ago. */
export const takeBack: Command = async (world, a) => {
  const {chain, staked} = world.kind
  if (staked === undefined) return
  if (a % 3) await world.db.rows('update app.delegation set return_at = clock_timestamp() where chain = $1', [chain])
  await world.tend()
}

const cancel: Command = async (world, a, b) => {
  const {chain} = world.kind
  const payouts = await world.db.rows<{id: string; merchant_id: string}>(
    `select id, merchant_id from app.payout where chain = $1 and status not in ('completed', 'failed') order by created_at`,
    [chain],
  )
  const payout = pick(payouts, a)
  if (payout && b % 3)
    return tryTo(world, 'payouts cancelled', () =>
      b % 3 === 1
        ? world.db.rows('select app.cancel_payout_by_operator($1)', [payout.id])
        : world.db.rows('select app.cancel_payout($1, $2)', [payout.merchant_id, payout.id]),
    )
  const withdrawal = pick(
    (await wanted(world)).filter(({kind}) => kind === 'withdrawal'),
    a,
  )
  if (withdrawal)
    return tryTo(world, 'withdrawals cancelled', () =>
      world.db.rows('select app.cancel_outgoing_payment($1)', [withdrawal.id]),
    )
}

/** An operator wants a higher fee offered. */
const replacePayment: Command = async (world, a) => {
  const {chain} = world.kind
  const payouts = await world.db.rows<{id: string}>(
    `select id from app.payout where chain = $1 and status = 'paying' order by created_at`,
    [chain],
  )
  const payout = pick(payouts, a)
  if (!payout) return
  await tryTo(world, 'replacements wanted', () =>
    world.db.rows('select app.replace_payout_by_operator($1)', [payout.id]),
  )
}

/** Takes an address off its whitelist, or puts it back. */
const whitelist: Command = async (world, a) => {
  const merchant = pick([null, ...world.start.merchants.map(({id}) => id)], a)
  const values = [world.kind.chain, merchant]
  const isWhere = 'chain = $1 and merchant_id is not distinct from $2 and removed_at is null'
  const removed = await world.db.rows(
    `update custody.whitelist set removed_at = clock_timestamp() where ${isWhere} returning id`,
    values,
  )
  if (!removed.length) await whitelistAll(world)
}

/** Every merchant and the operator may be paid. */
export async function whitelistAll({db, kind, start}: World): Promise<void> {
  const all = [[null, kind.outsider(operator)], ...start.merchants.map(({id, payoutAddress}) => [id, payoutAddress])]
  for (const [merchant, address] of all)
    await db.rows(
      'insert into custody.whitelist (merchant_id, chain, address) values ($1, $2, $3) on conflict do nothing',
      [merchant, kind.chain, address],
    )
}

// --- the service ---

const advance: Command = world => world.advance()
const send: Command = world => world.send()

/** A process dies at a step, while the worker does all its work. */
const crash: Command = async (world, a) => {
  world.crashAt = pick(crashLabels, a)
  await world.advance()
  await world.revive()
  await world.send()
  world.crashAt = undefined
}

const loseAnswer: Command = async world => {
  world.losesAnswer = true
  await world.send()
  world.losesAnswer = false
}

/** What a source says about a transaction that may have expired. */
const answers: Record<string, (world: World) => NonNullable<LapseSource['proveAbsent']>> = {
  honest:
    ({chain, kind}) =>
    async ({txid, raw}) =>
      chain.find(chain.head, txid) || chain.mayStillBeMined(kind.parse(raw)) ? 'it may still be in a block' : {},
  // Where it also omits the transaction, another node must be honest, or nothing is proven.
  lies: world => async expired =>
    world.indexer.omitted.has(expired.txid) ? await answers.honest!(world)(expired) : {},
  'is silent': () => async () => 'nobody can tell',
  fails: () => async () => {
    throw new Error('the source failed')
  },
}

/** The indexer polls once: it reads, moves finality, and looks for what expired. Its node may lag. */
const index: Command = async (world, a, b) => {
  const most = a % 3 ? Number.POSITIVE_INFINITY : 1 + (a % 7)
  await follow(world, most, a % 5 ? world.chain : world.chain.behind(a % 11))
  const how = b % 4 ? 'lies' : pick(['is silent', 'fails'], a)!
  await prove(world, how)
}

export async function prove(world: World, how: string): Promise<void> {
  const {halted} = await world.indexer.at()
  const before = await lapses(world)
  // A source that lies does so about every transaction, also about one that nobody asks about.
  if (how === 'lies')
    for (const txid of world.signed.keys())
      if (!world.indexer.omitted.has(txid)) await world.indexer.cursor.noteLapse(txid, {}).catch(ofJournal)
  await world.indexer.noteLapses(answers[how]!(world)).catch(error => {
    if (how !== 'fails') throw error
  })
  const more = (await lapses(world)) - before
  assertThat(halted === null || more === 0, 'a transaction lapsed while the chain was halted')
  world.count('lapses', more)
}

/** An older copy of the database does not know it yet. */
function ofJournal(error: {code?: string}): void {
  if (error.code !== 'P0003') throw error
}

async function lapses({db, kind}: World): Promise<number> {
  const [row] = await db.rows<{count: number}>('select count(*)::int as count from chain.lapse where chain = $1', [
    kind.chain,
  ])
  return row!.count
}

/** The node leaves a transaction out of the blocks that it shows; or it does not any more. */
const omit: Command = async (world, a) => {
  const {indexer, chain} = world
  const known = pick(
    [...chain.pool.keys()].filter(txid => !chain.find(indexer.head, txid)),
    a,
  )
  if (known === undefined || a % 3 === 0) return
  indexer.omitted.add(known)
  world.count('transactions omitted')
}

/** The database lost the chain, and an operator accepts that blocks are never read. */
const gap: Command = async (world, a) => {
  const {indexer, chain} = world
  const {halted, finalHeight} = await indexer.at()
  if (halted !== null || chain.final.height <= finalHeight || (await indexer.seesForkBelowFinal(chain))) return
  await rewindTo(world, finalHeight)
  if (indexer.head.height !== finalHeight) return
  const to = chain.at(finalHeight + 1 + (a % (chain.final.height - finalHeight)))!
  await indexer.skipTo(to, chain, world.db.pool)
  world.count('gaps accepted')
}

const rewind: Command = async (world, a) => {
  const {finalHeight, halted} = await world.indexer.at()
  if (halted !== null) return
  const lowest = world.start.head.height
  const to = Math.max(lowest, finalHeight - (a % 14))
  await rewindTo(world, to)
}

// --- the chain ---

/** All that may be in a block now. */
const candidates = ({chain}: World): Transaction[] =>
  [...chain.pool.values()].filter(transaction => !chain.whyNot(chain.head, transaction))

const mine: Command = async (world, a, b) => {
  const all = candidates(world)
  const taken = all.filter(({from}, i) => from === faucet || isIn(a, i))
  const block = await world.mine(
    taken,
    txid =>
      isIn(
        b,
        all.findIndex(one => one.txid === txid),
      ) && b % 3 === 0,
  )
  countMined(
    world,
    block.included.filter(({transaction}) => transaction.from !== faucet).length,
    block.included.filter(({failed}) => failed).length,
  )
}

function countMined(world: World, all: number, failed: number): void {
  world.count('transactions in blocks', all)
  world.count('failed transactions in blocks', failed)
}

/** Empty blocks. */
const age: Command = async (world, a) => {
  await world.mineEmpty((2 + (a % 12)) * (world.kind.ageing ?? 1))
}

/** A transaction is put into exactly the last block that may hold it; the block after may not. */
const lastBlock: Command = async (world, a, b) => {
  const {chain} = world
  const open = [...chain.pool.values()].filter(one => {
    const last = one.from === faucet || chain.find(chain.head, one.txid) ? undefined : chain.lastAfter(one)
    return last !== undefined && last >= 1 && last <= 20 * (world.kind.ageing ?? 1)
  })
  const transaction = pick(open, a)
  if (!transaction) return
  await world.mineEmpty(chain.lastAfter(transaction)! - 1)
  if (b % 3) await edge(world, b)
  if (chain.whyNot(chain.head, transaction)) return // its sender's other transactions came first, or it is not valid yet
  const before = chain.head
  const block = await world.mine([transaction], () => b % 4 === 0)
  if (!block.included.length) return
  world.count('in the last block that may hold it')
  const late = chain.add(chain.add(before, [], world.now), [transaction], world.now + 1000)
  assertThat(late.included.length === 0, 'a block past the end of a transaction held it')
}

/**
 * Just before the last block that may hold a transaction: the block below it is final, or only the newest, clocks are
 * late, and sources lie.
 */
async function edge(world: World, b: number): Promise<void> {
  if (b % 2 && world.chain.head.height > world.chain.final.height) world.chain.final = world.chain.head
  await world.pass(70_000)
  await follow(world)
  await prove(world, 'lies')
  await check(world)
  await world.send()
  world.count('lies before the last block')
}

/** Replaces blocks above the final one; what was in them may be in others, or fail or succeed there. */
const fork: Command = async (world, a, b) => {
  const {chain} = world
  const depth = Math.min(1 + (a % 6), chain.head.height - chain.final.height)
  if (depth > 0) await replace(world, depth, a >>> 3, b)
}

async function replace(world: World, depth: number, a: number, b: number): Promise<void> {
  const {chain} = world
  const base = chain.at(chain.head.height - depth)!
  const all = [...chain.pool.values()]
  const time = chain.head.time
  let head = chain.add(
    base,
    all.filter(({from}, i) => from === faucet || isIn(a, i)),
    time,
    txid =>
      isIn(
        b,
        all.findIndex(one => one.txid === txid),
      ),
  )
  for (let n = 0; n < depth; n++)
    head = chain.add(
      head,
      all.filter((_, i) => isIn(b, i + n)),
      time,
    )
  chain.head = head
  world.count('forks')
}

/** Finality is broken: the node replaces a block that it had called final. */
const deepFork: Command = async (world, a, b) => {
  const {chain} = world
  const depth = chain.head.height - chain.final.height + 1 + (a % 8)
  if (b % 4 || chain.head.height - depth < world.start.head.height) return
  const {final} = chain
  await replace(world, depth, a >>> 3, b >>> 2)
  chain.isBroken = true
  chain.final = chain.at(chain.head.height - depth - 1) ?? final
  world.count('forks below final')
}

/** Blocks become dearer, or cheaper; at the highest price the worker waits. */
const market: Command = async ({chain}, a) => {
  chain.price = pick([1, 1, 2, 3, 6, 40], a)!
}

const finalise: Command = async ({chain}, a) => {
  const block = chain.at(chain.head.height - (a % 4))
  if (block && block.height > chain.final.height) chain.final = block
}

const wait: Command = (world, a) => world.pass(pick([1000, 5000, 20_000, 45_000, 70_000], a)!)
export const mostSkewMs = 3_600_000
const skew: Command = (world, a) => world.skew(pick([0, 0, 30_000, -30_000, mostSkewMs, -mostSkewMs], a)!)

// --- a thief in the worker's place ---

export function wanted({db, kind}: World): Promise<(Wanted & {isOpen: boolean})[]> {
  return db.rows(
    `select id, kind, payout_id as "payoutId", amount::text as amount, source, recipient, fee_payer as "feePayer", nonce, cancelling, status <> 'final' as "isOpen",
       array(select u.txid || ':' || u.vout from app.output u where u.outgoing_payment_id = s.id order by u.txid || ':' || u.vout <> s.first_input, 1) as inputs,
       array(select u.txid || ':' || u.vout from app.output u where u.chain = s.chain order by 1) as outputs
     from app.outgoing_payment s where chain = $1 order by created_at`,
    [kind.chain],
  )
}

interface Signed {
  ok: boolean
  txid: string
  raw: string
  amount: string
}

/** Has something signed; the network gets it, or only the thief has it. */
const steal: Command = async (world, a, b) => {
  const one = pick(await wanted(world), a)
  if (!one) return
  const isContested = 'select from app.contested_payment where chain = $1 and subject_id = any($2)'
  const contested = await world.db.rows(isContested, [world.kind.chain, [one.id, one.payoutId]])
  const [result] = (await world.ask([world.kind.intent(one, a >>> 5)]).catch(() => [])) as Signed[]
  assertThat(!contested.length || !result?.ok, 'custody gave bytes of a contested payment')
  if (contested.length) world.count('thefts from contested payments refused')
  world.count(result?.ok ? 'signatures stolen' : 'thefts refused')
  if (!result?.ok) return
  world.stolen.push({...result, outgoingPaymentId: one.id})
  if (b % 2) world.publish(result.raw)
}

/** Something ends a payment while custody signs it. */
const race: Command = async (world, a, b) => {
  const one = pick(
    (await wanted(world)).filter(({isOpen}) => isOpen),
    a,
  )
  if (!one) return
  const client = await world.db.pool.connect()
  const cancelled = `update app.outgoing_payment set cancelling = true where id = '${one.id}'; select app.end_unsigned('${one.id}')`
  const expired = `select app.expire_payment('${one.id}', 'transaction_expired', 'said the thief')`
  world.race = {client, sql: b % 2 ? cancelled : expired}
  try {
    const [result] = (await world.ask([world.kind.intent(one, a >>> 5)]).catch(() => [])) as Signed[]
    await world.race.done?.catch(() => {})
    if (!result?.ok) return
    world.stolen.push({...result, outgoingPaymentId: one.id})
    world.publish(result.raw)
  } finally {
    world.race = undefined
    client.release()
  }
}

/** Calls any function that the worker may call. */
const call: Command = async (world, a, b) => {
  const one = pick(await wanted(world), a)
  if (!one) return
  const {
    kind: {fee},
    stolen,
  } = world
  const what = pick(stolen, b)
  const number = 1 + (b % 3)
  const calls: [string, ...unknown[]][] = [
    ['end_unsigned', one.id],
    ['expire_payment', one.id, 'transaction_expired', 'said the thief'],
    ['cancel_outgoing_payment', one.id],
    ['give_nonce_back', one.payoutId ?? randomUUID(), 0],
    ['fail_payout', one.payoutId ?? randomUUID(), 'timed_out', 'said the thief'],
    ['wait_outgoing_payment', one.id, null, null, 1],
    ['begin_payment', one.payoutId ?? randomUUID(), String(fee)],
  ]
  if (what) {
    const signed = [what.txid, what.raw, what.amount, String(fee), world.kind.feeDetails(what.raw)]
    for (const id of [one.id, what.outgoingPaymentId]) calls.push(['store_signed', id, number, 'effect', ...signed])
    calls.push(['record_broadcast', world.kind.chain, what.txid, null, 5000])
  }
  const [name, ...values] = pick(calls, b >>> 2)!
  const result = await world.call(name, ...values)
  world.count(`thief: ${name}${result === true ? ' (done)' : ''}`)
}

/** Calls any of all functions that the worker may call, with whatever it knows. */
const rob: Command = async (world, a, b) => {
  if (b % 4) return
  world.isRobbed = true
  const functions = await callable(world)
  for (let n = 0; n < 12; n++) {
    const {name, types} = pick(functions, a + n * 7919)!
    const known = await valuesOf(world)
    const result = await world.call(
      name,
      ...types.map((type, i) => pick(known[type] ?? [null], (b >>> i) + n * 31 + i)),
    )
    if (result !== undefined) world.count(`robber: ${name}`)
  }
}

const callable = ({db}: World) =>
  db.rows<{name: string; types: string[]}>(
    `select p.proname as name, array(select format_type(t, null) from unnest(p.proargtypes) with ordinality a (t, n) order by n) as types
     from pg_proc p where p.pronamespace = 'app'::regnamespace and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype and p.prosecdef
       and has_function_privilege('sluice_jobs', p.oid, 'execute') order by p.oid`,
  )

/** What a thief may name, by type. */
async function valuesOf(world: World): Promise<Record<string, unknown[]>> {
  const {start, kind, signed} = world
  const payments = await wanted(world)
  const payouts = await world.db.rows<{id: string}>('select id from app.payout where chain = $1 order by id', [
    kind.chain,
  ])
  const uuids = [...payments.map(({id}) => id), ...payouts.map(({id}) => id), ...start.merchants.map(({id}) => id)]
  const addresses = [
    start.treasury,
    ...start.merchants.map(({address}) => address),
    kind.outsider(0),
    kind.outsider(operator),
  ]
  const amounts = ['0', '1', '2', '10', '990', '1000', ...payments.map(({amount}) => amount)]
  const texts = [
    kind.chain,
    kind.chain,
    kind.chain,
    kind.token,
    kind.token,
    ...addresses,
    ...signed.keys(),
    'effect',
    'cancel',
    'timed_out',
  ]
  return {
    uuid: uuids,
    text: texts,
    integer: [0, 1, 2, 3, 1000],
    bigint: [0, 1, 2, 1000],
    numeric: amounts,
    boolean: [true, false],
    jsonb: ['{}'],
    'text[]': addresses.map(address => [address]),
    'uuid[]': uuids.map(id => [id]),
    'numeric[]': amounts.map(amount => [amount]),
    'timestamp with time zone': [new Date(world.now)],
  }
}

/** What a block holds when it is read, and the worker never stored, halts the chain at that moment. */
async function isInBlock({db}: World, {id}: Wanted): Promise<boolean> {
  const found = await db.rows(
    'select from app.outgoing_attempt o join chain.confirmed_tx i using (chain, txid) where o.outgoing_payment_id = $1',
    [id],
  )
  return found.length > 0
}

/**
 * The worker's rows of a payment are gone, as if custody's answer had not arrived; or the network has forgotten a
 * transaction.
 */
const lose: Command = async (world, a, b) => {
  const forgotten = pick(
    [...world.chain.pool.values()].filter(({from}) => from !== faucet),
    a,
  )
  if (b % 2 && forgotten) {
    world.chain.pool.delete(forgotten.txid)
    return world.count('transactions that the network forgot')
  }
  const live = (await wanted(world)).filter(({isOpen}) => isOpen)
  const one = pick(live, a)
  if (!one || (!world.kind.expires && (await isInBlock(world, one)))) return
  await world.db.pool.query(`begin; set local session_replication_role = replica;
    delete from app.outgoing_attempt where outgoing_payment_id = '${one.id}';
    update app.outgoing_payment set status = 'allocated' where id = '${one.id}' and status = 'live';
    update app.payout set status = 'swept' where id = ${one.payoutId && one.kind === 'payout' ? `'${one.payoutId}'` : 'null'} and status = 'paying'; commit`)
  world.count('rows lost')
}

// --- copies ---

const backUp: Command = world => world.backUp()

const restore: Command = async (world, a) => {
  if (!world.hasBackup || a % 2) return
  await world.restoreWithJournal()
  world.count('copies restored')
}

/**
 * The clock is right then: what waits is told by it. Where nothing expires, an operator has to find what such a copy
 * forgot by the audit of balances.
 */
const restoreBoth: Command = async (world, a) => {
  if (!world.hasBackup || a % 2 || !world.kind.expires) return
  await world.skew(0)
  await world.restoreWithoutJournal()
  world.count('copies restored without the journal')
  world.count('forgotten signatures', world.forgotten.size)
}

export const commands: Record<string, {weight: number; run: Command}> = {
  request: {weight: 5, run: request},
  withdraw: {weight: 4, run: withdraw},
  pay: {weight: 1, run: pay},
  sweep: {weight: 1, run: sweep},
  bringGasBack: {weight: 3, run: bringGasBack},
  takeBack: {weight: 3, run: takeBack},
  cancel: {weight: 2, run: cancel},
  whitelist: {weight: 1, run: whitelist},
  replacePayment: {weight: 1, run: replacePayment},
  advance: {weight: 6, run: advance},
  send: {weight: 9, run: send},
  crash: {weight: 4, run: crash},
  loseAnswer: {weight: 2, run: loseAnswer},
  index: {weight: 12, run: index},
  rewind: {weight: 3, run: rewind},
  mine: {weight: 7, run: mine},
  age: {weight: 6, run: age},
  lastBlock: {weight: 3, run: lastBlock},
  fork: {weight: 3, run: fork},
  deepFork: {weight: 1, run: deepFork},
  market: {weight: 1, run: market},
  finalise: {weight: 7, run: finalise},
  wait: {weight: 8, run: wait},
  skew: {weight: 1, run: skew},
  steal: {weight: 5, run: steal},
  race: {weight: 3, run: race},
  call: {weight: 3, run: call},
  backUp: {weight: 1, run: backUp},
  restore: {weight: 1, run: restore},
  restoreBoth: {weight: 1, run: restoreBoth},
  omit: {weight: 1, run: omit},
  gap: {weight: 2, run: gap},
  rob: {weight: 1, run: rob},
  lose: {weight: 2, run: lose},
  decide: {weight: 2, run: decide},
}
