// Runs the checks against one node. Promises: what cannot be checked is named with its reason, and a check that fails
// stops no other one.

import {familyOf} from '../../../chains/families.ts'
import {type ChainCode, chain as registered} from '../../../chains/registry.ts'
import {readSettings} from '../../../chains/settings.ts'
import {actsOf, type Check, NotPossible} from './checks.ts'
import {families} from './families.ts'
import {World} from './world.ts'

export interface Result {
  name: string
  verdict: 'right' | 'wrong' | 'not possible here'
  /** What is wrong, or why it is not possible. */
  why: string
  seconds: number
}

export interface Options {
  chain: ChainCode
  url: string
  key: string
  /** Settings of the chain, beside those of the environment. */
  settings?: Record<string, string>
  mayReorganise: boolean
  /** Of each wait. */
  limitMs: number
  onStep?(what: string): void
  onResult?(result: Result): void
}

export async function checkNode(options: Options): Promise<Result[]> {
  const {chain, limitMs, onStep = () => {}, onResult = () => {}} = options
  const family = families[registered(chain).family]
  if (!family) throw new Error(`nodes of ${chain} cannot be checked; those of ${checkable()} can`)
  const environment = {...process.env, ...options.settings}
  const endpoint = familyOf(registered(chain)).endpointVariable(registered(chain))
  readSettings({...environment, [endpoint]: options.url}) // throws before anything is sent, also for a main network
  onStep(`Preparing the accounts on ${chain} ...`)
  const node = await family.open({...options, environment})
  try {
    onStep('Starting the service ...')
    const world = await World.open(chain, node, {limitMs, environment})
    const results = await checkAll(world, onResult)
    const kept = await world.close({keep: results.some(({verdict}) => verdict === 'wrong')})
    if (kept) onStep(`The data and logs are in ${kept}`)
    return results
  } finally {
    await node.close()
  }
}

async function checkAll(world: World, onResult: (result: Result) => void): Promise<Result[]> {
  const results: Result[] = []
  const acts = actsOf(world.node)
  for (const act of acts) {
    const checks = Object.entries(act).map(async ([name, check]) => {
      const result = await judged(name, check, world)
      onResult(result)
      return result
    })
    results.push(...(await Promise.all(checks)))
    if (act === acts[0] && results.some(({verdict}) => verdict === 'wrong')) break // nothing else can be right
  }
  return results
}

const checkable = () => Object.keys(families).join(', ')

async function judged(name: string, check: Check, world: World): Promise<Result> {
  const startedAt = performance.now()
  const result = (verdict: Result['verdict'], why = ''): Result => {
    return {name, verdict, why, seconds: (performance.now() - startedAt) / 1000}
  }
  try {
    await check(world)
    return result('right')
  } catch (error) {
    if (error instanceof NotPossible) return result('not possible here', error.message)
    return result('wrong', inWords(error as Error))
  }
}

function inWords({message, cause}: Error): string {
  return cause instanceof Error ? `${message} (${cause.message})` : message
}
