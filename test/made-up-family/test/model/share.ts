// A process of the model: it runs its share of the histories on a database of its own. main.ts starts it, and gets its
// counts. Promises: a history that fails is printed as short as it still fails, with how to run it again.
import fc from 'fast-check'
import {ModelDatabase} from './database.ts'
import {names, run, type Step} from './history.ts'
import {type Kind, type KindName, kinds} from './kinds.ts'
import {Base} from './world.ts'

export interface Share {
  url: string
  home: string
  seed: number
  histories: number
  kinds: KindName[]
  isShrunk: boolean
  path?: string
}

export interface Done {
  histories: number
  failed: boolean
  ms: number
  counts: [what: string, count: number][]
}

const bits = fc.nat(2 ** 30 - 1)
const step: fc.Arbitrary<Step> = fc.record({command: fc.constantFrom(...names), a: bits, b: bits})

async function main(share: Share): Promise<Done> {
  const chosen = share.kinds.map(name => kinds[name])
  const history = fc.tuple(fc.constantFrom(...chosen), fc.array(step, {minLength: 1, maxLength: 60, size: 'max'}))
  const base = await Base.open(new ModelDatabase(share.url), share.home, chosen)
  const began = performance.now()
  let ran = 0
  const property = fc.asyncProperty(history, async ([kind, steps]) => {
    await run(base, kind, steps)
    ran++
    if (ran % 100 === 0) console.error(`${ran} histories, ${Math.round((performance.now() - began) / ran)} ms each`)
  })
  const {seed, path, histories: numRuns, isShrunk} = share
  const options = {seed, numRuns, unbiased: true, endOnFailure: !isShrunk || path !== undefined, ...(path && {path})}
  const result = await fc.check(property, options)
  if (result.failed) printFailure(share, result)
  return {histories: result.numRuns, failed: result.failed, ms: performance.now() - began, counts: [...base.counts]}
}

function printFailure({seed, kinds}: Share, failure: fc.RunDetails<[[Kind, Step[]]]>): void {
  const [[kind, steps]] = failure.counterexample!
  const error = failure.errorInstance
  console.log(`\nA history failed (number ${failure.numRuns}, made shorter ${failure.numShrinks} times):`)
  console.log(`kind ${kind.name}`)
  for (const {command, a, b} of steps) console.log(`  ${command} ${a} ${b}`)
  console.log(error instanceof Error ? error.stack : error)
  console.log(`\nAgain: npm run model -- --seed ${seed} --kinds ${kinds} --path ${failure.counterexamplePath}`)
}

process.once('disconnect', () => process.exit(1))
const done = await main(JSON.parse(process.argv[2]!))
process.send!(done, () => process.exit(0))
