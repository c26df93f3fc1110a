// Loaded into the processes of the service before their own code. They reach nodes through the proxies of the torture.
// A process that reaches a labelled step (base/step.ts) is sometimes killed there, as by kill -9, until the torture is
// over. The seed gives the probability for each label, so each run kills at some labels more often.
import {subscribe} from 'node:diagnostics_channel'
import {existsSync, writeSync} from 'node:fs'
import {Random} from './random.ts'

const {TORTURE_SEED: seed, TORTURE_CALM_FILE: calmFile} = process.env
const atFirstMost = 0.12
const laterMost = 0.01

const [flag, code] = process.argv.slice(2)
const ofChain = flag === '--chain' ? `${code}_` : '' // an indexer knows the nodes of its chain alone
const own = `TORTURE_${/(\w+)\/main\.ts$/.exec(process.argv[1] ?? '')?.[1]}_${ofChain}`
for (const [name, value] of Object.entries(process.env))
  if (name.startsWith(own)) process.env[name.slice(own.length - ofChain.length)] = value

if (seed && calmFile) {
  const favourites = new Random(Number(seed))
  const random = new Random(Number(seed) ^ process.pid ^ Date.now())
  const seen = new Set<unknown>()
  subscribe('sluice:step', label => {
    const likelihood = favourites.fork(`${label}`).next() * (seen.has(label) ? laterMost : atFirstMost)
    seen.add(label)
    if (!random.chance(likelihood) || existsSync(calmFile)) return
    writeSync(2, `torture: killed at ${label}\n`)
    process.kill(process.pid, 'SIGKILL')
  })
}
