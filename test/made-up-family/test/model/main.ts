// Runs histories of the model: node test/model/main.ts --seed N --histories M [--path P] [--kinds height,time]. It runs in a copy of the tree with the
// made-up family (test/model.ts makes it). The exit code is 1 if a history failed; the shortest one that still fails is printed then.
import {chmodSync, mkdirSync, mkdtempSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {parseArgs} from 'node:util'
import fc from 'fast-check'
import {startPostgres} from '../../db/embedded.ts'
import {ModelDatabase} from './database.ts'
import {names, run, type Step} from './history.ts'
import {type KindName, kindNames, kinds} from './kinds.ts'
import {Base, type Counts} from './world.ts'

const {values} = parseArgs({
  options: {
    seed: {type: 'string', default: String(Date.now() % 2 ** 31)},
    histories: {type: 'string', default: '100'},
    path: {type: 'string'},
    'no-shrinking': {type: 'boolean', default: false},
    kinds: {type: 'string', default: kindNames.join(',')},
  },
})
const seed = Number(values.seed)
const chosen = values.kinds.split(',').map(name => kinds[name as KindName])

const bits = fc.nat(2 ** 30 - 1)
const step: fc.Arbitrary<Step> = fc.record({command: fc.constantFrom(...names), a: bits, b: bits})
const history = fc.tuple(fc.constantFrom(...chosen), fc.array(step, {minLength: 1, maxLength: 60, size: 'max'}))

async function main(): Promise<number> {
  const home = mkdtempSync(path.join(tmpdir(), 'sluice-model-'))
  chmodSync(home, 0o755)
  const sockets = path.join(home, 'sockets') // quicker than TCP
  mkdirSync(sockets)
  chmodSync(sockets, 0o777)
  const flags = [
    `-c unix_socket_directories=${sockets}`,
    '-c fsync=off',
    '-c synchronous_commit=off',
    '-c jit=off',
    '-c autovacuum=off',
    '-c full_page_writes=off',
    '-c plan_cache_mode=force_generic_plan',
  ]
  const server = await startPostgres({dir: path.join(home, 'postgres'), flags})
  try {
    const url = new URL(server.url)
    url.searchParams.set('host', sockets)
    const db = await ModelDatabase.open(String(url))
    const base = await Base.open(db, home, chosen)
    const began = performance.now()
    let done = 0
    const property = fc.asyncProperty(history, async ([kind, steps]) => {
      await run(base, kind, steps)
      done++
      if (done % 100 === 0)
        console.error(`${done} histories, ${Math.round((performance.now() - began) / done)} ms each`)
    })
    const options = {
      seed,
      numRuns: Number(values.histories),
      unbiased: true,
      endOnFailure: values['no-shrinking'],
      ...(values.path && {path: values.path, endOnFailure: true}),
    }
    const result = await fc.check(property, options)
    console.log(
      `seed ${seed}, ${result.numRuns} histories, ${Math.round((performance.now() - began) / Math.max(1, done))} ms each`,
    )
    console.log(inLines(base.counts))
    if (result.failed) {
      const [kind, steps] = result.counterexample![0]
      console.log(`\nA history failed (number ${result.numRuns}, made shorter ${result.numShrinks} times):`)
      console.log(`kind ${kind.name}`)
      for (const {command, a, b} of steps) console.log(`  ${command} ${a} ${b}`)
      console.log(result.errorInstance instanceof Error ? result.errorInstance.stack : result.errorInstance)
      console.log(
        `\nAgain: npm run model -- --seed ${seed} --kinds ${values.kinds} --path ${result.counterexamplePath}`,
      )
    }
    return result.failed ? 1 : 0
  } finally {
    await server.stop()
    rmSync(home, {recursive: true, force: true})
  }
}

function inLines(counts: Counts): string {
  return [...counts]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([what, count]) => `${String(count).padStart(8)}  ${what}`)
    .join('\n')
}

process.exit(await main())
