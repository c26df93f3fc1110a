// One history: its commands, then quiet. Promises: after every command the invariants hold; once the chain is quiet, clocks are right, and operators have
// decided what waits for them, everything ends and the ledger agrees with the chain.

import {branch} from './chain.ts'
import {type Command, commands, follow, mostSkewMs, prove, rewindTo, whitelistAll} from './commands.ts'
import {check, checkEnd, unfinished, Violation} from './invariants.ts'
import type {Kind} from './kinds.ts'
import {type Base, World} from './world.ts'

export interface Step {
  command: string
  a: number
  b: number
}

/** More than the lifetimes of all transactions that a payment may have. */
const mostRounds = 14

export async function run(base: Base, kind: Kind, steps: Step[]): Promise<void> {
  const world = await World.open(base, kind)
  try {
    for (const {command, a, b} of steps) {
      await commands[command]!.run(world, a, b)
      await world.revive()
      await check(world)
    }
    await quiet(world)
    await checkEnd(world)
    world.count(`histories: ${kind.name}`)
    world.count('signatures', world.signed.size)
    if (world.chain.isBroken) world.count('histories with broken finality')
  } finally {
    world.close()
  }
}

async function quiet(world: World): Promise<void> {
  world.crashAt = undefined
  await world.skew(0)
  await world.pass(mostSkewMs) // what was put off by a wrong clock is due
  await whitelistAll(world)
  let left: string[] = []
  for (let n = 0; n < mostRounds; n++) {
    await round(world)
    left = await unfinished(world)
    if (!left.length) {
      world.count('rounds until all ended', n + 1)
      return
    }
  }
  throw new Violation(`the chain is quiet, and this never ends:\n${left.join('\n')}`)
}

/** A block with everything that may be in one, then time and empty blocks; all of it is final and read; then the service and the operator work. */
async function round(world: World): Promise<void> {
  const {chain} = world
  await world.mine([...chain.pool.values()])
  await world.pass(70_000)
  await world.mineEmpty(12)
  chain.final = chain.head
  await decide(world)
  await follow(world)
  await prove(world, 'honest')
  await decide(world)
  await check(world)
  await world.advance()
  await world.send()
  await world.advance()
  await check(world)
}

/** What an operator does who follows the docs. */
async function decide(world: World): Promise<void> {
  const {db, kind, indexer, chain} = world
  const open = await db.rows<{id: string; kind: string; subject: string}>(
    'select id, kind, subject from app.incident where resolved_at is null order by id',
  )
  const decisions: Record<string, string> = {
    second_payment: 'loss',
    unknown_transaction: 'kept',
    payment_of_failed_payout: 'kept',
    final_payment_vanished: 'kept',
    unproven_expiry: 'absent',
    final_deposit_vanished: 'kept',
    final_deposit_moved: 'kept',
  }
  for (const incident of open) {
    world.count(`incident: ${incident.kind}`)
    if (incident.kind === 'fork_below_final') {
      const theirs = new Set(branch(chain.head))
      let common = indexer.head
      while (!theirs.has(common)) common = common.parent!
      await rewindTo(world, common.height)
      await follow(world)
      continue
    }
    const decision = decisions[incident.kind]
    if (decision) await db.rows('select app.resolve_incident($1, $2)', [incident.id, decision])
  }
  void kind
}

export const names: string[] = Object.entries(commands).flatMap(([name, {weight}]) => Array<string>(weight).fill(name))
export type {Command}
