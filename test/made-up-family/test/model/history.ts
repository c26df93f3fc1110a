// One history: its commands, then quiet. Promises: after every command the invariants hold; once the chain is quiet,
// clocks are right, and operators have decided what waits for them, everything ends and the ledger agrees with the
// chain.

import {bringGasBack, type Command, commands, mostSkewMs, prove, sendGas, takeBack, whitelistAll} from './commands.ts'
import {check, checkEnd, unfinished, Violation} from './invariants.ts'
import type {Kind} from './kinds.ts'
import {decide} from './operator.ts'
import {follow} from './reading.ts'
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
    if (kind.coinFee) await sendGas(world)
    for (const {command, a, b} of steps) {
      await commands[command]!.run(world, a, b)
      await world.revive()
      await check(world)
    }
    await quiet(world)
    if (!world.isRobbed) await checkEnd(world)
    world.count(`histories: ${kind.name}`)
    await countAttempts(world)
    if (world.chain.isBroken) world.count('histories with broken finality')
  } finally {
    world.close()
  }
}

async function countAttempts(world: World): Promise<void> {
  world.count('signatures', world.signed.size)
  for (const {kind} of world.signed.values()) world.count(`signatures: ${kind}`)
  const again = await world.db.rows<{kind: string; count: number}>(
    'select kind, count(*)::int as count from app.outgoing_attempt where chain = $1 and attempt > 1 group by kind',
    [world.kind.chain],
  )
  for (const {kind, count} of again) world.count(kind === 'cancel' ? 'attempts: cancel' : 'attempts: again', count)
}

async function quiet(world: World): Promise<void> {
  world.crashAt = undefined
  world.chain.price = 1
  await world.skew(0)
  await world.pass(mostSkewMs) // what was put off by a wrong clock is due
  await whitelistAll(world)
  let left: string[] = []
  let ended = 0
  for (let n = 0; n < mostRounds; n++) {
    await round(world)
    left = await unfinished(world)
    if (left.length) continue
    world.count('rounds until all ended', n + 1)
    ended += 1
    if (ended === 2 || !world.kind.coinFee) return
    await bringGasBack(world, 0, 0)
  }
  if (world.isRobbed) return
  throw new Violation(`the chain is quiet, and this never ends:\n${left.join('\n')}`)
}

/**
 * A block with everything that may be in one, then time and empty blocks; all of it is final and read; then the service
 * and the operator work.
 */
async function round(world: World): Promise<void> {
  const {chain} = world
  await world.mine([...chain.pool.values()])
  await world.pass(70_000)
  await world.mineEmpty(12 * (world.kind.ageing ?? 1))
  chain.final = chain.head
  await decide(world)
  await follow(world)
  await prove(world, 'honest')
  await decide(world)
  await check(world)
  await world.advance()
  await world.send()
  await takeBack(world, 1, 0)
  await world.advance()
  await check(world)
}

export const names: string[] = Object.entries(commands).flatMap(([name, {weight}]) => Array<string>(weight).fill(name))
export type {Command}
