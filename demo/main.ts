// npm run demo: shows the whole service on local chains, with a merchant, deposits, reorganisations, a payment request,
// payouts and webhooks. Then the service keeps running. With --once it ends instead; with --json the result is one JSON
// object on the last line of stdout, and the progress is on stderr.
import path from 'node:path'
import {parseArgs} from 'node:util'
import {PermanentError} from '../base/errors.ts'
import {onInterrupt} from '../base/interrupt.ts'
import {hasNode} from '../chains/families.ts'
import {loadEnvironmentFile, readSettings, type Settings} from '../chains/settings.ts'
import {facts, table} from '../cli/output.ts'
import {type Balance, eventTypes, Sluice} from '../sdk/index.ts'
import {type RunningService, Supervisor} from '../service/supervisor.ts'
import {type ChainCode, chainCodes, openChains} from './chains.ts'
import {Operator} from './operator.ts'
import {Payment} from './payment.ts'
import {Payouts} from './payouts.ts'
import {Receiver} from './receiver.ts'
import {Screen} from './screen.ts'
import {Story} from './story.ts'

const {once, json} = options()
const screen = new Screen(json ? process.stderr : process.stdout)

function options() {
  try {
    return parseArgs({options: {once: {type: 'boolean', default: false}, json: {type: 'boolean', default: false}}})
      .values
  } catch (error) {
    console.error(`${(error as Error).message}\nusage: npm run demo -- [--once] [--json]`)
    process.exit(2)
  }
}

async function main(): Promise<void> {
  process.stdout.on('error', () => {}) // the reader is gone; the service keeps running
  loadEnvironmentFile()
  process.env.WEBHOOK_ALLOW_PRIVATE = '1' // the receiver is on this machine
  process.env.DOCS_TRY = '1' // its merchant is made up
  const settings = readSettings()
  requireLocalChains(settings)
  const startedAt = performance.now()
  const supervisor = new Supervisor(settings, {
    quiet: true,
    onStep: what => screen.live([`Starting ${what} ...`]),
  })
  let interrupted = false
  onInterrupt({
    first: () => {
      interrupted = true
      screen.freeze()
      screen.say('\nStopping ...')
      supervisor.stop().then(() => end(once ? 130 : 0), fail)
    },
    again: () => void supervisor.kill().finally(() => process.exit(130)),
  })
  try {
    screen.say(screen.style('bold', 'Sluice demo'))
    if (!screen.isLive) screen.say('Starting the database, five local chains and the service ...')
    const service = await supervisor.start()
    screen.live([])
    screen.say(`Everything runs after ${((performance.now() - startedAt) / 1000).toFixed(1)} s.`)
    await show(service)
    if (!once) return
    screen.say('\nStopping ...')
    await supervisor.stop()
    end(0)
  } catch (error) {
    if (interrupted) return
    screen.freeze()
    screen.say('\nStopping ...')
    await supervisor.stop()
    throw error
  }
}

async function show(service: RunningService): Promise<void> {
  const receiver = await Receiver.listen()
  const operator = new Operator(service.databaseUrl)
  const key = await operator.openShop()
  const shop = new Sluice({apiKey: key, baseUrl: service.apiUrl})
  receiver.secret = await receiveWebhooks(shop, receiver.url)
  const user = await shop.users.create({external_ref: 'alice', chains: [...chainCodes]})
  const addresses = Object.fromEntries(user.addresses.map(({chain, address}) => [chain, address])) as Record<
    ChainCode,
    string
  >
  screen.say(
    block(
      facts({
        merchant: 'Demo Shop; its users may pay in on ETH, POLYGON, BTC, TRON and SOL; fee 0.5 %',
        user: `${user.external_ref}, with one address for ETH and POLYGON, one each for BTC, TRON and SOL`,
        webhooks: `to ${receiver.url}; each signature is verified`,
      }),
    ),
  )
  const chains = await openChains(service.home, chainCodes)
  const cast = {shop, operator, receiver, screen, addresses, chains}
  const story = new Story(cast)
  await story.play()
  const payment = new Payment(cast)
  await payment.play()
  const {balances} = await shop.balances.get()
  screen.say(`\n${screen.style('bold', 'Balances')}${block(`\n${balanceTable(balances)}`)}`)
  const payouts = new Payouts(cast)
  await payouts.play()
  const counts = receiver.counts()
  screen.say(`\n${screen.style('bold', 'Webhooks')}  all signatures are valid${block(`\n${facts(counts)}`)}`)
  if (json) {
    const deposits = story.deposits.map(({confirmations: _, ...deposit}) => deposit)
    result = {ok: true, deposits, payment: payment.played, webhooks: counts, balances, payouts: payouts.played}
    if (!once) console.log(JSON.stringify(result))
  }
  if (once) return
  const invitation = service.dashboardUrl && (await operator.invite(service.dashboardUrl))
  stayUp({service, receiver, key, addresses, stranger: payouts.stranger, invitation})
}

/** Registers the only endpoint of the merchant; those of earlier runs are deleted. Resolves to its secret. */
async function receiveWebhooks({webhookEndpoints}: Sluice, url: string): Promise<string> {
  for (const {id} of await webhookEndpoints.list()) await webhookEndpoints.delete(id)
  const event_types = eventTypes.filter(type => /^(deposit|payout)\./.test(type))
  return (await webhookEndpoints.create({url, event_types})).secret
}

interface Left {
  service: RunningService
  receiver: Receiver
  key: string
  /** The user's. */
  addresses: Record<ChainCode, string>
  /** The payout address that is not whitelisted. */
  stranger: string
  /** To the merchant's dashboard. */
  invitation: string | undefined
}

function stayUp({service: {home, apiUrl, dashboardUrl}, receiver, key, addresses, stranger, invitation}: Left): void {
  const sluice = `${home === path.resolve('.sluice') ? '' : `SLUICE_HOME=${home} `}npm run -s sluice --`
  screen.say(
    [
      `\n${screen.style('bold', 'The service keeps running.')}  Ctrl-C stops everything.`,
      block(
        facts({
          API: apiUrl,
          documentation: `${apiUrl}/docs`,
          ...(dashboardUrl && {dashboard: dashboardUrl, invitation: `${invitation}; open it once, to sign in`}),
          receiver: `${receiver.url}; what arrives is shown below`,
        }),
      ),
      '\nTry, in another terminal:\n',
      `  curl -H 'Authorization: Bearer ${key}' ${apiUrl}/v1/balances`,
      `  curl -H 'x-api-key: ${key}' -H 'content-type: application/json' -d '{"external_id": "demo-1", "amount": "25"}' ${apiUrl}/v1/ETH-USDC/payment-request`,
      `  ${sluice} status`,
      `  ${sluice} payout list`,
      `  ${sluice} whitelist add --merchant demo --chain POLYGON --address ${stranger}`,
      `  ${sluice} devnet send --chain ETH --token USDC --amount 19.99 --to ${addresses.ETH}`,
      `  ${sluice} devnet send --chain BTC --token BTC --amount 0.01 --to ${addresses.BTC}`,
      '',
    ].join('\n'),
  )
  receiver.onEvent = ({type, amount, net, token, chain, txid}) =>
    screen.say(`  webhook  ${type.padEnd(17)}  ${amount ?? net ?? ''} ${token ?? ''} on ${chain ?? ''}  ${txid ?? ''}`)
}

function requireLocalChains({localChains, chains}: Settings): void {
  const remote = [...chains.values()].filter(hasNode).map(({chain}) => chain.code)
  if (remote.length)
    throw new PermanentError(
      `the demo uses local chains only; unset the nodes of ${remote.join(' and ')} in the settings`,
    )
  if (localChains.length < chains.size) throw new PermanentError('the demo uses local chains only; unset SLUICE_DEVNET')
}

/** Indents, below an empty line. */
function block(text: string): string {
  return `\n${text}`.replace(/\n(?=.)/g, '\n  ')
}

function balanceTable(balances: Balance[]): string {
  const rows = balances.map(({chain, token, gross, fee, net, depositCount}) => [
    chain,
    token,
    gross,
    fee,
    net,
    depositCount,
  ])
  return table(['chain', 'token', 'gross', 'fee', 'net', 'deposits'], rows, 'none')
}

let result: object = {}

function end(code: number): void {
  if (json && once) console.log(JSON.stringify(code === 0 ? result : {ok: false, error: 'the demo was interrupted'}))
  process.exit(code)
}

function fail(error: Error): void {
  screen.freeze()
  if (json) console.log(JSON.stringify({ok: false, error: error.message}))
  const {home} = readSettings()
  const nextSteps = `Everything is stopped. The logs are in ${path.join(home, 'logs')}. To look at what is there, run npm start; to begin anew, remove ${home} and run npm run demo.`
  console.error(`demo: ${error.message}${error instanceof PermanentError ? '' : `\n${nextSteps}`}`)
  process.exit(1)
}

main().catch(fail)
