// What is checked with a node that nobody here wrote. Each check has a name that says what holds. A check throws an
// error that says what does not, or NotPossible. The checks of one act run at the same time; acts follow one another.
import {setTimeout as sleep} from 'node:timers/promises'
import {isDeepStrictEqual} from 'node:util'
import {reindexingChangesNothing} from '../../torture/operator.ts'
import type {Asset, NodeUnderTest, Output, Possible, Signed} from './node.ts'
import type {World} from './world.ts'

export class NotPossible extends Error {}

export type Check = (world: World) => Promise<void>
export type Act = Record<string, Check>

/** Those of a node's family. */
export const actsOf = ({stake}: NodeUnderTest): Act[] => [
  {'the service follows the chain': follows},
  {
    'a payment is pending, then final, with its exact amount': world => deposits(world, 1),
    'several payments to one address are as many deposits': world => deposits(world, 3),
    'one transaction pays several addresses, and one of them twice': paysMany,
    'a payment in a token is final with its exact amount': paysTokens,
    'a transaction that fails credits nothing': fails,
  },
  {'a payment that is mined while the indexer is dead is found': survivesKills},
  {'a reorganisation drops a pending deposit, which comes back with its transaction': comesBack},
  {'a reorganisation that moves a deposit into another block makes no event': moves},
  {
    'a payout in coins is swept, paid and completed, and its address has exactly the net': world =>
      paysOut(world, world.node.coin),
    'a payout in tokens is swept, paid and completed, and its address has exactly the net': async world => {
      for (const token of possible(world.node.tokens)) await paysOut(world, token)
    },
  },
  ...(stake ? [{'an address sweeps a token with energy that the treasury lends it, and burns none': lendsEnergy}] : []),
  {'sluice audit finds nothing': audits},
  {'reading the chain again from before the first deposit changes nothing': readsAgain},
]

function possible<T extends object>(asked: Possible<T>): T {
  if ('why' in asked) throw new NotPossible(asked.why)
  return asked
}

function expectEqual(what: string, found: unknown, wanted: unknown): void {
  if (!isDeepStrictEqual(found, wanted))
    throw new Error(`${what}: ${JSON.stringify(found)} instead of ${JSON.stringify(wanted)}`)
}

/** Also funds the treasury, so that it has coins once something is paid out. */
async function follows(world: World): Promise<void> {
  const {height, hash} = await world.node.head()
  await world.pay({to: await world.treasury(), amount: world.node.float})
  await world.reads(height + 1)
  const rows = await world.query('select hash from chain.block where chain = $1 and height = $2', [world.code, height])
  expectEqual(`block ${height}`, rows, [{hash}])
}

// --- deposits ---

/** As many payments to one address, each of another amount. */
async function deposits(world: World, count: number): Promise<void> {
  const {coin} = world.node
  const to = await world.newUser()
  const payments: [Signed, Output][] = []
  for (let n = 0; n < count; n++) {
    const output = {to, amount: coin.usual + BigInt(n + 1)}
    payments.push([await world.pay(output), output])
  }
  for (const [signed, output] of payments) await becomesFinal(world, signed, [output], coin)
}

async function paysMany(world: World): Promise<void> {
  const {coin, payMany} = world.node
  const send = possible(payMany)
  const [one, two] = [await world.newUser(), await world.newUser()]
  const outputs = [one, two, one].map((to, n) => ({to, amount: coin.usual + BigInt(n + 10)}))
  await becomesFinal(world, await world.send(await send(outputs)), outputs, coin)
}

async function paysTokens(world: World): Promise<void> {
  for (const token of possible(world.node.tokens)) {
    const output = {to: await world.newUser(), amount: token.usual}
    await becomesFinal(world, await world.pay(output, token), [output], token)
  }
}

async function fails(world: World): Promise<void> {
  const {coin, fail} = world.node
  const send = possible(fail)
  const signed = await world.send(await send({to: await world.newUser(), amount: coin.usual}))
  const {height} = await world.mined(signed)
  await world.reads(height, {isFinal: true})
  expectEqual('the deposits of a transaction that failed', await world.depositsOf(signed), [])
}

/** Waits until the outputs are deposits of the merchant: pending first, then final, with these amounts and events. */
async function becomesFinal(world: World, signed: Signed, outputs: Output[], asset: Asset): Promise<void> {
  await world.mined(signed)
  const places = sumsOf(world, outputs, asset)
  const are = async (status: string) => {
    const found = await world.depositsOf(signed)
    return found.length > 0 && found.every(deposit => deposit.status === status)
  }
  await world.until(`${signed.txid} to be pending`, async () => (await are('pending')) || (await are('final')))
  await world.until(`${signed.txid} to be final`, () => are('final'))
  const found = await world.depositsOf(signed)
  const shown = found.map(({address, token, amount}) => `${address} ${token} ${amount}`)
  const bySum = sumsOf(
    world,
    found.map(({address, amount}) => ({to: address, amount: units(amount, asset)})),
    asset,
  )
  expectEqual(`the deposits ${shown} of ${signed.txid}`, bySum, places)
  const events = found.flatMap(() => ['deposit.pending', 'deposit.confirmed']).sort()
  const told = await world.until(`the events of ${signed.txid}`, async () => {
    const told = await world.eventsOf('txid', signed.txid)
    return told.length >= events.length && told
  })
  expectEqual(`the events of ${signed.txid}`, told.toSorted(), events)
}

/** What each address gets: some families show several payments of a transaction to one address as one. */
function sumsOf(world: World, outputs: Output[], asset: Asset): Record<string, string> {
  const sums = new Map<string, bigint>()
  for (const {to, amount} of outputs) sums.set(to, (sums.get(to) ?? 0n) + amount)
  return Object.fromEntries([...sums].sort().map(([to, sum]) => [to, `${world.coins(sum, asset)} ${asset.token}`]))
}

function units(amount: string, {decimals}: Asset): bigint {
  const [coins = '', fraction = ''] = amount.split('.')
  return BigInt(coins + fraction.padEnd(decimals, '0'))
}

async function survivesKills(world: World): Promise<void> {
  const {coin} = world.node
  const output = {to: await world.newUser(), amount: coin.usual + 100n}
  const mined = new AbortController()
  const killing = (async () => {
    let kills = 0
    for (; !mined.signal.aborted; await sleep(50)) if (world.killIndexer()) kills++
    return kills
  })()
  let signed: Signed
  try {
    signed = await world.pay(output)
    await world.mined(signed)
  } finally {
    mined.abort()
  }
  if ((await killing) === 0) throw new Error('no indexer was there to be killed')
  await becomesFinal(world, signed, [output], coin)
}

// --- reorganisations ---

/** A payment in a block that is not final, below at least one other block. */
async function pendingPayment(world: World, more: bigint): Promise<{signed: Signed; below: number}> {
  const signed = await world.pay({to: await world.newUser(), amount: world.node.coin.usual + more})
  const {height} = await world.mined(signed)
  await world.reads(height + 1)
  const [cursor] = await world.query<{final: number}>(
    'select final_height as final from chain.cursor where chain = $1',
    [world.code],
  )
  if (cursor!.final >= height) throw new NotPossible('blocks are final before they could be taken off')
  await isPending(world, signed)
  return {signed, below: height - 1}
}

async function isPending(world: World, signed: Signed): Promise<void> {
  await world.until(`${signed.txid} to be pending`, async () => (await statusOf(world, signed)) === 'pending')
}

async function statusOf(world: World, signed: Signed): Promise<string | undefined> {
  return (await world.depositsOf(signed))[0]?.status
}

async function comesBack(world: World): Promise<void> {
  const rewind = possible(world.node.rewind)
  const {signed, below} = await pendingPayment(world, 200n)
  await rewind(below)
  await world.until(`${signed.txid} to be reorged`, async () => (await statusOf(world, signed)) === 'reorged')
  await world.send(signed)
  await world.mined(signed)
  await world.until(`${signed.txid} to be final`, async () => (await statusOf(world, signed)) === 'final')
  const events = ['deposit.pending', 'deposit.reorged', 'deposit.pending', 'deposit.confirmed']
  await hasEvents(world, signed, events)
}

async function moves(world: World): Promise<void> {
  const rewind = possible(world.node.rewind)
  const {signed, below} = await pendingPayment(world, 300n)
  const before = await world.node.placeOf(signed)
  await rewind(below)
  await world.send(signed)
  const after = await world.mined(signed)
  if (after.hash === before?.hash) throw new Error(`the node put ${signed.txid} into the same block`)
  await world.until(`${signed.txid} to be final`, async () => (await statusOf(world, signed)) === 'final')
  await hasEvents(world, signed, ['deposit.pending', 'deposit.confirmed'])
}

async function hasEvents(world: World, {txid}: Signed, events: string[]): Promise<void> {
  await world.until(
    `the last event of ${txid}`,
    async () => (await world.eventsOf('txid', txid)).at(-1) === events.at(-1),
  )
  expectEqual(`the events of ${txid}`, await world.eventsOf('txid', txid), events)
}

// --- payouts ---

async function paysOut(world: World, asset: Asset): Promise<void> {
  const to = await payoutAddress(world)
  const sources = await world.query<{address: string; amount: string}>(
    `select address, sum(amount)::text as amount from app.deposit
     where chain = $1 and token = $2 and status = 'final' and credited group by 1`,
    [world.code, asset.token],
  )
  const {id} = await world.payOut(asset)
  const completed = async () => {
    const payout = await world.payout(id)
    return ['completed', 'failed'].includes(payout.status) && payout
  }
  const payout = await world.until(`the payout of ${asset.token} to be completed`, completed).catch(async cause => {
    throw new Error(`the payout of ${asset.token} is ${await world.standingOf(id)}`, {cause})
  })
  expectEqual('the payout', [payout.status, payout.error], ['completed', null])
  const gross = sources.reduce((sum, {amount}) => sum + BigInt(amount), 0n)
  expectEqual('the gross amount', payout.gross, world.coins(gross, asset))
  expectEqual('the sum of what the payout is made of', await world.sumOf(id, asset), gross)
  expectEqual(`what ${to} has`, world.coins(await world.node.balance(to, asset), asset), payout.net)
  for (const {address, amount} of sources) {
    const left = await world.node.balance(address, asset)
    if (left * 2n > BigInt(amount)) throw new Error(`${address} still has ${left} of ${amount}: it was not swept`)
  }
  expectEqual('the events of the payout', await world.eventsOf('payout_id', id), ['payout.completed'])
}

/** After that, nothing is lent any more. */
async function lendsEnergy(world: World): Promise<void> {
  const {amount} = possible(await world.node.stake!())
  const [token] = possible(world.node.tokens)
  const funded = await world.pay({to: await world.treasury(), amount: amount + world.node.float})
  await world.reads((await world.mined(funded)).height, {isFinal: true})
  await world.sluice('treasury', 'stake', '--chain', world.code, '--amount', world.coins(amount, world.node.coin))
  const isStaked = 'select from app.stake where chain = $1 and amount > 0'
  await world.until('the stake to be final', async () => (await world.query(isStaked, [world.code])).length > 0)

  await payoutAddress(world)
  const address = await world.newUser()
  await becomesFinal(
    world,
    await world.pay({to: address, amount: token!.usual}, token),
    [{to: address, amount: token!.usual}],
    token!,
  )
  const {id} = await world.payOut(token!)
  const completed = async () => (await world.payout(id)).status === 'completed'
  await world.until('the payout to be completed', completed).catch(async cause => {
    throw new Error(`the payout is ${await world.standingOf(id)}`, {cause})
  })
  const done = () =>
    world.query<{kind: string; outcome: string | null; fee: string}>(
      `select kind, outcome, fee_paid::text as fee from app.outgoing_payment where recipient = $1 and kind <> 'fund' or source = $1 order by created_at`,
      [address],
    )
  await world.until('what was lent to be taken back', async () => {
    const last = (await done()).at(-1)
    return last?.kind === 'undelegate' && last.outcome === 'done'
  })
  const all = await done()
  expectEqual(
    'what was done',
    all.map(({kind, outcome}) => `${kind} ${outcome}`),
    ['delegate done', 'sweep done', 'undelegate done'],
  )
  if (BigInt(all[1]!.fee) > mostBytes) throw new Error(`the sweep burnt ${all[1]!.fee} sun`)
}

/** What the bytes of a sweep may cost, in sun: they may not be free. */
const mostBytes = 400_000n

const payoutAddresses = new WeakMap<World, Promise<string>>()

/** One for all payouts: a merchant has one on a chain. */
function payoutAddress(world: World): Promise<string> {
  const made = payoutAddresses.get(world) ?? makePayoutAddress(world)
  payoutAddresses.set(world, made)
  return made
}

async function makePayoutAddress(world: World): Promise<string> {
  const address = world.node.newAddress()
  await world.payOutTo(address)
  return address
}

// --- the books ---

async function audits(world: World): Promise<void> {
  await world.until('everything that is paid to be final', async () => {
    const open = await world.query(`select from app.outgoing_payment where status <> 'final'`)
    return open.length === 0
  })
  expectEqual('what it finds', await world.audit(), [])
}

async function readsAgain(world: World): Promise<void> {
  if (await world.hasOpenPayouts()) throw new NotPossible('a payout is not over yet, and goes on meanwhile')
  const wrong = await reindexingChangesNothing({db: world.db, service: world, chains: [world.code]})
  if (wrong.length) throw new Error(wrong.join('; '))
}
