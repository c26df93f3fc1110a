// npm run conformance -- --chain ETH --url http://… : checks the service against any node, with a funded account of its
// network. Prints a line for each check; ends with 1 if anything is wrong. The key of the account is never printed.
// docs/operations/node.md says more.
import {parseArgs} from 'node:util'
import {onInterrupt} from '../../../base/interrupt.ts'
import {chainCodes, findChain, chain as registered} from '../../../chains/registry.ts'
import {loadEnvironmentFile} from '../../../chains/settings.ts'
import {table} from '../../../cli/output.ts'
import {families} from './families.ts'
import {checkNode, type Options, type Result} from './run.ts'

const usage = `usage: CONFORMANCE_KEY=… npm run conformance -- --chain ETH --url http://node.example:8545 [--key KEY] [--may-reorganise] [--limit SECONDS]

  --chain            one of ${chainCodes.filter(code => families[registered(code).family]).join(', ')}
  --url              the node; further settings of the chain, such as ETH_FINALITY, are read from the environment
  --key              the key of a funded account: hex, on Solana base58 or the name of a file of solana-keygen (better in CONFORMANCE_KEY,
                     which no other user of this machine sees)
  --may-reorganise   take blocks off the chain (debug_setHead): on a private network only
  --limit            the longest that a check waits for one thing (default: 1800)`

function options(): Options {
  const {values} = parseArgs({
    options: {
      chain: {type: 'string'},
      url: {type: 'string'},
      key: {type: 'string'},
      limit: {type: 'string', default: '1800'},
      'may-reorganise': {type: 'boolean', default: false},
      help: {type: 'boolean', default: false},
    },
  })
  if (values.help) {
    console.log(usage)
    process.exit(0)
  }
  const {url} = values
  const chain = findChain(values.chain ?? '')?.code
  const key = values.key ?? process.env.CONFORMANCE_KEY
  const limitMs = Number(values.limit) * 1000
  if (!chain || !url || !key) throw new Error('give --chain, --url and a key')
  if (!(limitMs > 0)) throw new Error('--limit must be a number of seconds')
  return {chain, url, key, limitMs, mayReorganise: values['may-reorganise']}
}

function optionsOrUsage(): Options {
  try {
    return options()
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${usage}`)
    process.exit(2)
  }
}

function line({name, verdict, why, seconds}: Result): string {
  return `${verdict.padEnd(17)}  ${seconds.toFixed(1).padStart(6)} s  ${name}${why && `: ${why}`}`
}

function asTable(results: Result[]): string {
  const rows = results.map(({name, verdict, why, seconds}) => [
    name,
    verdict === 'not possible here' ? `${verdict}: ${why}` : verdict,
    seconds.toFixed(1),
  ])
  return table(['check', 'result', 'seconds'], rows, 'none')
}

async function main(): Promise<void> {
  loadEnvironmentFile()
  const given = optionsOrUsage()
  onInterrupt({first: () => process.exit(130), again: () => process.exit(130)})
  delete process.env.CONFORMANCE_KEY // no process of the service gets it
  const results = await checkNode({
    ...given,
    onStep: what => console.error(what),
    onResult: result => console.error(line(result)),
  })
  console.log(asTable(results))
  const wrong = results.filter(({verdict}) => verdict === 'wrong')
  for (const {name, why} of wrong) console.log(`\nWRONG: ${name}\n  ${why}`)
  process.exit(wrong.length ? 1 : 0)
}

main().catch((error: Error) => {
  console.error(error.message)
  process.exit(1)
})
