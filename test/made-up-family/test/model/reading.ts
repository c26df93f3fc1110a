// What the service does again and again in a history, and an operator has it do: it reads blocks, and is rewound.
// Promises: what the database refuses is counted, not an error.
import type {NodeView} from './chain.ts'
import {assertThat} from './invariants.ts'
import type {World} from './world.ts'

/** Errors with which the database refuses a request; anything else is an error of the model. */
export async function tryTo(world: World, what: string, work: () => Promise<unknown>): Promise<boolean> {
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

/** Reads blocks, and moves finality; at a fork below the final block, the real indexer halts the chain. */
export async function follow(
  world: World,
  most = Number.POSITIVE_INFINITY,
  node: NodeView = world.chain,
): Promise<void> {
  const {indexer} = world
  if ((await indexer.at()).halted !== null) return
  if (await indexer.seesForkBelowFinal(node)) {
    assertThat(!(await indexer.read(node)), 'the service followed a fork below its final block')
    assertThat(!(await indexer.resumeReading(node)), 'a fork below final is seen, and the chain is not halted')
    world.count('forks below final seen')
    return
  }
  await indexer.read(node, most)
  await indexer.finalise(node)
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
