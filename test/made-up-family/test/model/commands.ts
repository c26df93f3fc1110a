// What may happen in a history: what users, operators, the service's processes, the chain, and a thief in the worker's place do. Each command has two
// numbers, which choose among what there is at that moment, so that a shorter history is still one. Promises: a command that finds nothing to do
// does nothing; what the service refuses is counted, not an error.
import {randomUUID} from 'node:crypto'
import type {LapseSource} from '../../indexers/lapses.ts'
import {faucet, type Transaction} from './chain.ts'
import {assertThat, check} from './invariants.ts'
import type {Wanted} from './kinds.ts'
import {deposit, deposited, outsider, type World} from './world.ts'

export type Command = (world: World, a: number, b: number) => Promise<unknown>

/** The step labels at which a process can die, as far as these families reach them. */
export const crashLabels = [
  'payout: before check',
  'payout: before begin_sweeping',
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

/** Errors with which the database refuses a request; anything else is an error of the model. */
async function tryTo(world: World, what: string, work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work()
    world.count(what)
    return true
  } catch (error) {
    const {code} = error as {code?: string}
    if (code === undefined || !/^(SL|P000|40001)/.test(code)) throw error
    world.count(`refused: ${what}`)
    return false
  }
}

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

const withdraw: Command = (world, a) =>
  tryTo(world, 'withdrawals requested', () =>
    world.db.rows('select app.begin_withdrawal($1, $2, $3, $4, $5)', [
      world.kind.chain,
      world.kind.token,
      String(10 + (a % 50)),
      outsider(9),
      String(world.kind.fee),
    ]),
  )

const pay: Command = async (world, a) => {
  world.deposits += 1
  const {address} = pick(world.start.merchants, a)!
  const transaction = deposit(world.kind, `deposit ${world.deposits}`, address, deposited)
  world.chain.pool.set(transaction.txid, transaction)
}

/** Sweeps that no payout needs. */
const sweep: Command = async (world, a) => {
  const {address} = pick(world.start.merchants, a)!
  const {chain, token, fee} = world.kind
  const [held] = await world.db.rows<{amount: string}>(
    'select amount from app.holding where chain = $1 and address = $2 and token = $3',
    [chain, address, token],
  )
  const amount = BigInt(held?.amount ?? 0) - fee
  if (amount > 0n) await world.call('begin_sweeps', null, chain, token, [address], [String(amount)], [String(fee)])
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
export async function whitelistAll({db, kind: {chain}, start}: World): Promise<void> {
  const all = [[null, outsider(9)], ...start.merchants.map(({id, payoutAddress}) => [id, payoutAddress])]
  for (const [merchant, address] of all)
    await db.rows(
      'insert into custody.whitelist (merchant_id, chain, address) values ($1, $2, $3) on conflict do nothing',
      [merchant, chain, address],
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
  lies: () => async () => ({}),
  'is silent': () => async () => 'nobody can tell',
  fails: () => async () => {
    throw new Error('the source failed')
  },
}

/** The indexer polls once: it reads, moves finality, and looks for what expired. */
const index: Command = async (world, a, b) => {
  const most = a % 3 ? Number.POSITIVE_INFINITY : 1 + (a % 7)
  await follow(world, most)
  const how = b % 4 ? 'lies' : pick(['is silent', 'fails'], a)!
  await prove(world, how)
}

export async function prove(world: World, how: string): Promise<void> {
  const {halted} = await world.indexer.at()
  const before = await lapses(world)
  // A source that lies does so about every transaction, also about one that nobody asks about.
  if (how === 'lies')
    for (const txid of world.signed.keys()) await world.indexer.cursor.noteLapse(txid, {}).catch(ofJournal)
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

/** Reads blocks; at a fork below the final block, halts the chain as the real indexer does. */
export async function follow(world: World, most = Number.POSITIVE_INFINITY): Promise<void> {
  const {indexer, chain} = world
  if ((await indexer.at()).halted !== null) return
  const ours = await indexer.at()
  const theirs = chain.at(ours.finalHeight)
  if (theirs && theirs.hash !== ours.finalHash) {
    const wrote = await indexer.read(chain)
    assertThat(!wrote, 'the service followed a fork below its final block')
    await indexer.cursor.halt({final_height: ours.finalHeight, node_hash: theirs.hash})
    world.count('forks below final seen')
    const {halted} = await indexer.at()
    assertThat(halted !== null, 'a fork below final is seen, and the chain is not halted')
    return
  }
  await indexer.read(chain, most)
  await indexer.finalize(chain)
}

const rewind: Command = async (world, a) => {
  const {finalHeight, halted} = await world.indexer.at()
  if (halted !== null) return
  const lowest = world.start.head.height
  const to = Math.max(lowest, finalHeight - (a % 14))
  await rewindTo(world, to)
}

export async function rewindTo(world: World, height: number): Promise<void> {
  const done = await tryTo(world, 'rewinds', () =>
    world.db.rows('select app.request_rewind($1, $2)', [world.kind.chain, height]),
  )
  if (!done) return
  await world.indexer.rewind(height)
  await noteContested(world)
}

export async function noteContested(world: World): Promise<void> {
  const rows = await world.db.rows('select from app.contested_payment where chain = $1', [world.kind.chain])
  world.count('contested payments', rows.length)
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
  await world.mineEmpty(2 + (a % 12))
}

/** A transaction is put into exactly the last block that may hold it; the block after may not. */
const lastBlock: Command = async (world, a, b) => {
  const {chain} = world
  const open = [...chain.pool.values()].filter(one => {
    const last = one.from === faucet || chain.find(chain.head, one.txid) ? undefined : chain.lastAfter(one)
    return last !== undefined && last >= 1 && last <= 20
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

/** Just before the last block that may hold a transaction: the block below it is final, or only the newest, clocks are late, and sources lie. */
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

const finalise: Command = async ({chain}, a) => {
  const block = chain.at(chain.head.height - (a % 4))
  if (block && block.height > chain.final.height) chain.final = block
}

const wait: Command = (world, a) => world.pass(pick([1000, 5000, 20_000, 45_000, 70_000], a)!)
export const mostSkewMs = 3_600_000
const skew: Command = (world, a) => world.skew(pick([0, 0, 30_000, -30_000, mostSkewMs, -mostSkewMs], a)!)

// --- a thief in the worker's place ---

export function wanted({db, kind}: World): Promise<(Wanted & {amount: string; isOpen: boolean})[]> {
  return db.rows(
    `select id, kind, payout_id as "payoutId", amount::text as amount, status <> 'final' as "isOpen" from app.outgoing_payment where chain = $1 order by created_at`,
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
  const [result] = (await world.ask([world.kind.intent(one)]).catch(() => [])) as Signed[]
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
    const [result] = (await world.ask([world.kind.intent(one)]).catch(() => [])) as Signed[]
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
    ['set_payment_aside', one.payoutId ?? randomUUID(), 0],
    ['fail_payout', one.payoutId ?? randomUUID(), 'timed_out', 'said the thief'],
    ['wait_outgoing_payment', one.id, null, null, 1],
    ['begin_payment', one.payoutId ?? randomUUID(), String(fee)],
  ]
  if (what) {
    calls.push(['store_signed', one.id, number, 'effect', what.txid, what.raw, what.amount, String(fee), {}])
    calls.push([
      'store_signed',
      what.outgoingPaymentId,
      number,
      'effect',
      what.txid,
      what.raw,
      what.amount,
      String(fee),
      {},
    ])
    calls.push(['record_broadcast', world.kind.chain, what.txid, null, 5000])
  }
  const [name, ...values] = pick(calls, b >>> 2)!
  const result = await world.call(name, ...values)
  world.count(`thief: ${name}${result === true ? ' (done)' : ''}`)
}

// --- copies ---

const backUp: Command = world => world.backUp()

const restore: Command = async (world, a) => {
  if (!world.hasBackup || a % 2) return
  await world.restoreWithJournal()
  world.count('copies restored')
}

export const commands: Record<string, {weight: number; run: Command}> = {
  request: {weight: 5, run: request},
  withdraw: {weight: 4, run: withdraw},
  pay: {weight: 1, run: pay},
  sweep: {weight: 1, run: sweep},
  cancel: {weight: 2, run: cancel},
  whitelist: {weight: 1, run: whitelist},
  advance: {weight: 6, run: advance},
  send: {weight: 9, run: send},
  crash: {weight: 4, run: crash},
  loseAnswer: {weight: 2, run: loseAnswer},
  index: {weight: 12, run: index},
  rewind: {weight: 3, run: rewind},
  mine: {weight: 4, run: mine},
  age: {weight: 6, run: age},
  lastBlock: {weight: 3, run: lastBlock},
  fork: {weight: 3, run: fork},
  deepFork: {weight: 1, run: deepFork},
  finalise: {weight: 7, run: finalise},
  wait: {weight: 8, run: wait},
  skew: {weight: 1, run: skew},
  steal: {weight: 5, run: steal},
  race: {weight: 3, run: race},
  call: {weight: 3, run: call},
  backUp: {weight: 1, run: backUp},
  restore: {weight: 1, run: restore},
}
