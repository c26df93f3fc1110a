// sluice trigger: makes an event really happen on the local chains of the service in SLUICE_HOME: a user, coins from
// the faucet, blocks. What a merchant does goes through the public API, with the merchant's own key; what an operator
// does, through the operator's command. Promises: it ends when the event can be read, and prints it; coins of local
// chains are all that it touches. Where no such service is, the client library sends a signed example instead.
import {spawnSync} from 'node:child_process'
import {createHash, randomBytes} from 'node:crypto'
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import {Command, CommanderError} from 'commander'
import pg from 'pg'
import {readService, type Service} from '../base/home.ts'
import {chains} from '../chains/registry.ts'
import {beforeAllEvents, type Deposit, type Event, type EventType, eventTypes, Sluice} from '../sdk/index.ts'
import type {LocalClient} from './client.ts'
import {findLocalChain} from './families.ts'

/** More than a chain needs to be worth collecting, and a part of it, by token. */
const amounts: Record<string, {whole: string; part: string}> = {
  BTC: {whole: '0.05', part: '0.02'},
  ETH: {whole: '1.5', part: '0.5'},
  SOL: {whole: '3', part: '1'},
}
const usual = {whole: '75', part: '30'}
const shortestExpirySeconds = 300
/** Blocks that may be mined between a look at a deposit and the reorganisation that takes it. */
const minedMeanwhile = 2
const testEachMs = 20_000
const pollMs = 200

interface Stage {
  sluice: Sluice
  chain: LocalClient
  token: string
  /** As payment requests name it. */
  currency: string
  amount: {whole: string; part: string}
  /** The merchant's. */
  prefix: string
  /** Resolves to the next event of this type that the test is true of. */
  happened(type: EventType, isIt: (event: Event) => boolean): Promise<Event>
}

const scenes: Record<EventType, (stage: Stage) => Promise<Event>> = {
  'deposit.pending': async stage => (await pending(stage)).event,
  'deposit.confirmed': confirmed,
  'deposit.reorged': async stage => {
    requireReplaceable(stage)
    const {event, deposit} = await pending(stage)
    await replace(stage, async () => (await stage.sluice.deposits.get(deposit.id)).confirmations)
    return await stage.happened('deposit.reorged', isOf('txid', event))
  },
  'payout.completed': async stage => {
    await confirmed(stage)
    await usePayoutAddress(stage, true)
    const {id} = await payOut(stage)
    for (const event = stage.happened('payout.completed', ofPayout(id)); ; await stage.chain.mine(1)) {
      const found = await Promise.race([event, sleep(1000)])
      if (found) return found
    }
  },
  'payout.failed': async stage => {
    await confirmed(stage)
    const before = await usePayoutAddress(stage, false)
    try {
      const {id} = await payOut(stage)
      await stage.sluice.payouts.cancel(id)
      say(`cancelled the payout ${id}, to an address that is not on the whitelist`)
      return await stage.happened('payout.failed', ofPayout(id))
    } finally {
      if (before) await stage.sluice.payoutAddresses.set({chain: stage.chain.chain, address: before})
    }
  },
  'payment_request.detected': async stage => (await detected(stage)).event,
  'payment_request.partially_paid': async stage => {
    const request = await ask(stage)
    await pay(stage, request.address, stage.amount.part)
    await final(stage)
    return await stage.happened('payment_request.partially_paid', ofRequest(request))
  },
  'payment_request.paid': async stage => {
    const {request} = await detected(stage)
    await final(stage)
    return await stage.happened('payment_request.paid', ofRequest(request))
  },
  'payment_request.underpaid': async stage => {
    const request = await ask(stage, shortestExpirySeconds)
    await pay(stage, request.address, stage.amount.part)
    await final(stage)
    return await afterExpiry(stage, 'payment_request.underpaid', request)
  },
  'payment_request.expired': async stage =>
    await afterExpiry(stage, 'payment_request.expired', await ask(stage, shortestExpirySeconds)),
  'payment_request.cancelled': async stage => {
    const request = await ask(stage)
    await stage.sluice.paymentRequests.cancel(request.external_id)
    return await stage.happened('payment_request.cancelled', ofRequest(request))
  },
  'payment_request.reopened': async stage => {
    requireReplaceable(stage)
    const {request} = await detected(stage)
    const read = () => stage.sluice.paymentRequests.get(request.external_id)
    await replace(stage, async () => (await read()).receipts[0]?.confirmations ?? 0)
    return await stage.happened('payment_request.reopened', ofRequest(request))
  },
  'webhook_endpoint.disabled': async ({sluice, happened}) => {
    const server = createServer((_request, response) => response.writeHead(410).end())
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/gone`
    const {id} = await sluice.webhookEndpoints.create({url})
    say(`registered ${url}, which answers 410 to all; after a minute of it, it is disabled`)
    try {
      while ((await sluice.webhookEndpoints.get(id)).enabled) {
        await sluice.webhookEndpoints.test(id).catch(() => {}) // it may be disabled by now
        await sleep(testEachMs)
      }
      return await happened('webhook_endpoint.disabled', event => 'url' in event && event.url === url)
    } finally {
      await sluice.webhookEndpoints.delete(id)
      server.close()
    }
  },
}

// --- what they are made of ---

async function pending(stage: Stage): Promise<{event: Event; deposit: Deposit}> {
  const {sluice, chain, token, amount} = stage
  const user = await sluice.users.create({external_ref: `trigger-${hex()}`, chains: [chain.chain]})
  const {address} = user.addresses.find(each => each.chain === chain.chain)!
  say(`made the user ${user.external_ref}, who has ${address} on ${chain.chain}`)
  const txid = await pay(stage, address, amount.whole)
  const event = await stage.happened('deposit.pending', one => 'txid' in one && one.txid === txid)
  const {items} = await sluice.deposits.list({user_id: user.id, token}).page()
  return {event, deposit: items[0]!}
}

async function confirmed(stage: Stage): Promise<Event> {
  const {event} = await pending(stage)
  await final(stage)
  return await stage.happened('deposit.confirmed', isOf('txid', event))
}

async function ask({sluice, currency, amount, prefix}: Stage, expiresInSeconds?: number) {
  const request = await sluice.paymentRequests.create(currency, {
    external_id: `${prefix}-trigger-${hex()}`,
    amount: amount.whole,
    ...(expiresInSeconds && {expires_in: expiresInSeconds}),
  })
  say(`asked for ${amount.whole} ${currency} as ${request.external_id}: ${request.payment_url}`)
  return request
}
type Request = Awaited<ReturnType<typeof ask>>

async function detected(stage: Stage): Promise<{request: Request; event: Event}> {
  const request = await ask(stage)
  await pay(stage, request.address, stage.amount.whole)
  return {request, event: await stage.happened('payment_request.detected', ofRequest(request))}
}

async function afterExpiry(stage: Stage, type: EventType, request: Request): Promise<Event> {
  say(`it expires at ${request.expires_at}, the shortest time there is: waiting`)
  return await stage.happened(type, ofRequest(request))
}

async function pay({chain, token}: Stage, to: string, amount: string): Promise<string> {
  const txid = await chain.send({token, to, amount})
  say(`paid ${amount} ${token} from the faucet: ${txid}`)
  return txid
}

/** Mines until what has a block is final. */
async function final({chain}: Stage): Promise<void> {
  const {height} = await chain.mine(chain.info.confirmations)
  say(`mined ${chain.info.confirmations} blocks, up to ${height}`)
}

/** A reorganisation of final blocks would halt the chain. */
function requireReplaceable({chain, currency}: Stage): void {
  if (chain.info.confirmations <= 2 * minedMeanwhile + 1)
    throw new Error(`blocks of ${currency} are final too soon to be replaced: choose another one, such as ETH-USDC`)
}

/** Replaces the newest blocks, with the payment that has this many confirmations, by empty ones. */
async function replace({chain}: Stage, confirmationsOf: () => Promise<number>): Promise<void> {
  let confirmations = 0
  while (confirmations === 0) {
    confirmations = await confirmationsOf()
    if (confirmations === 0) await sleep(pollMs)
  }
  if (confirmations + 2 * minedMeanwhile > chain.info.confirmations)
    throw new Error('this machine is too slow for it: try again')
  await chain.reorg(confirmations + minedMeanwhile)
  say(`a reorganisation replaced ${confirmations + minedMeanwhile} blocks, the payment is gone`)
}

/**
 * Has payouts go to an address that is on the whitelist, or to one that is not: the present one, if it is so, or a new
 * one. Resolves to the present one.
 */
async function usePayoutAddress({sluice, chain, prefix}: Stage, isOnWhitelist: boolean): Promise<string | undefined> {
  const present = (await sluice.payoutAddresses.list()).find(each => each.chain === chain.chain)
  if (present && present.whitelisted === isOnWhitelist) return undefined
  const address = chain.newAddress()
  await sluice.payoutAddresses.set({chain: chain.chain, address})
  say(`made ${address} the payout address of ${chain.chain}`)
  if (isOnWhitelist) operate('whitelist', 'add', '--merchant', prefix, '--chain', chain.chain, '--address', address)
  return present?.address
}

async function payOut({sluice, chain, token}: Stage) {
  const payout = await sluice.payouts.create({chain: chain.chain, token})
  say(`asked for the payout ${payout.id} of ${payout.net} ${token}`)
  return payout
}

/** The operator's command of this checkout. */
function operate(...given: string[]): void {
  const program = fileURLToPath(new URL('../cli/main.ts', import.meta.url))
  const {status, stderr} = spawnSync(process.execPath, [program, ...given], {encoding: 'utf8'})
  if (status !== 0) throw new Error(`sluice ${given.join(' ')}: ${stderr}`)
}

const hex = () => randomBytes(4).toString('hex')
const say = (what: string) => console.error(`  ${what}`)
const isOf =
  (field: string, {[field as 'id']: value}: Event) =>
  (event: Event) =>
    event[field as 'id'] === value
const ofPayout = (id: string) => (event: Event) => 'payout_id' in event && event.payout_id === id
const ofRequest =
  ({external_id}: Request) =>
  (event: Event) =>
    'external_id' in event && event.external_id === external_id

// --- the command ---

const program = new Command('sluice trigger')
  .description(
    `Makes an event happen: on the local chains of a service on this machine, for real (a user, coins, blocks);
anywhere else, by sending the signed example of it, which says "test": true.

SLUICE_API_KEY is the merchant's key. SLUICE_URL says where the service is, if not here.`,
  )
  .argument('<type>', eventTypes.join(', '))
  .option('--currency <currency>', 'what is paid, as in payment requests; on local chains only', 'ETH-USDC')
  .option('--forward-to <url>', 'send the signed example to this URL instead')
  .addHelpText('after', '\nExample:\n  sluice trigger deposit.confirmed')
  .showHelpAfterError('(--help shows how to use it)')
  .exitOverride()
  .action(async (type: string, {currency, forwardTo}: {currency: string; forwardTo?: string}) => {
    const service = readService(path.resolve(process.env.SLUICE_HOME || '.sluice'))
    const {SLUICE_URL: url} = process.env
    const isHere = service && (!url || URL.parse(url)?.href === URL.parse(service.api_url)?.href)
    const hasLocal = service && Object.values(service.chains).some(({local}) => local)
    if (forwardTo) return example(type, forwardTo)
    if (!isHere || !hasLocal) {
      const why = !service
        ? 'no service runs in SLUICE_HOME'
        : hasLocal
          ? 'SLUICE_URL is another service'
          : 'it has none'
      console.error(`sluice: not on local chains (${why}): a signed example is sent instead`)
      return example(type, forwardTo)
    }
    const event = await perform(service, typeOf(type), currency)
    console.log(JSON.stringify(event, null, 2))
  })

async function perform(service: Service, type: EventType, currency: string): Promise<Event> {
  const {SLUICE_API_KEY: apiKey} = process.env
  if (!apiKey) throw new Error('set SLUICE_API_KEY to a key of the merchant: sluice key create makes one')
  const sluice = new Sluice({apiKey, baseUrl: service.api_url})
  const known = (await sluice.assets.list()).map(({name}) => name)
  const {code, token} = assetOf(currency)
  if (!known.includes(currency)) throw new Error(`${currency} is none of ${known.join(', ')}`)
  const chain = await findLocalChain(path.resolve(process.env.SLUICE_HOME || '.sluice'), code)
  const {items} = await sluice.events.list({type: [...eventTypes], limit: 1}).page()
  const after = items[0]?.id ?? beforeAllEvents
  return await scenes[type]({
    ...{sluice, chain, token, currency, amount: amounts[token] ?? usual},
    prefix: await prefixOf(service, apiKey),
    happened: async (type, isIt) => {
      for await (const event of sluice.events.follow({after, type, pauseMs: pollMs})) if (isIt(event)) return event
      throw new Error('the list of events ended')
    },
  })
}

function assetOf(currency: string): {code: (typeof chains)[number]['code']; token: string} {
  const [first = '', token = first] = currency.split('-')
  const chain = chains.find(({code, assets}) => (currency.includes('-') ? code === first : assets[0]!.token === first))
  if (!chain) throw new Error(`${currency} is no currency such as ETH-USDC`)
  return {code: chain.code, token}
}

/** Of the merchant that has this key. */
async function prefixOf({database_url}: Service, apiKey: string): Promise<string> {
  const db = new pg.Client({connectionString: database_url, application_name: 'sluice-trigger'})
  await db.connect()
  try {
    const {rows} = await db.query<{prefix: string}>(
      'select m.prefix from app.api_key k join app.merchant m on m.id = k.merchant_id where k.secret_hash = $1',
      [createHash('sha256').update(apiKey).digest()],
    )
    return rows[0]!.prefix
  } finally {
    await db.end()
  }
}

function typeOf(text: string): EventType {
  const type = eventTypes.find(each => each === text)
  if (type) return type
  throw new Error(`${text} is no type of event; there are ${eventTypes.join(', ')}`)
}

/** As the client library does it for those who have no checkout. */
function example(type: string, forwardTo: string | undefined): void {
  const program = fileURLToPath(new URL('../sdk/command/main.ts', import.meta.url))
  const given = ['trigger', type, ...(forwardTo ? ['--forward-to', forwardTo] : [])]
  process.exitCode = spawnSync(process.execPath, [program, ...given], {stdio: 'inherit'}).status ?? 1
}

try {
  await program.parseAsync()
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2
  else {
    console.error(`sluice: ${(error as Error).message}`)
    process.exitCode = 1
  }
}
