// A shop on Express 5: an address for each customer, deposits that a webhook credits, and payouts.
//   npm install express @sluice/client && PORT=3000 SLUICE_URL=… SLUICE_API_KEY=… SLUICE_WEBHOOK_SECRET=… node shop.ts
import {DatabaseSync} from 'node:sqlite'
import {Amount, ApiError, type Body, Sluice, verify, WebhookError} from '@sluice/client'
import express, {type ErrorRequestHandler} from 'express'

function setting(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set`)
  return value
}

const webhookSecret = setting('SLUICE_WEBHOOK_SECRET')
const sluice = new Sluice({baseUrl: setting('SLUICE_URL'), apiKey: setting('SLUICE_API_KEY')})

// A row is both the credit and the id by which it happens once: they are saved in one transaction. The id is the
// deposit's: an event comes again under its own id, or, after Sluice was restored from a backup, under a new one.
// Amounts are text: a number would lose digits.
const db = new DatabaseSync('shop.db')
db.exec(`create table if not exists credit (
  deposit_id text primary key, reference text not null, asset text not null, amount text not null)`)
const saveOnce = db.prepare('insert into credit values (?, ?, ?, ?) on conflict (deposit_id) do nothing')
const creditsOf = db.prepare('select asset, amount from credit where reference = ?')

const app = express()

// The signature is over the bytes as they came, so this route takes them raw. If your app has app.use(express.json()),
// put it behind this route.
app.post('/webhooks', express.raw({type: 'application/json'}), (request, response) => {
  const event = verify(request.body, request.headers, webhookSecret) // throws unless Sluice sent it, just now
  if (event.type === 'deposit.confirmed' && !event.test)
    saveOnce.run(event.deposit_id, event.user.external_ref, `${event.chain} ${event.token}`, event.amount)
  // Only now that it is saved: after an error Sluice sends it again. Whatever takes longer, do later.
  response.status(204).end()
})

// The next three routes are open to everybody: put your own login before them.

/** The deposit addresses of a customer. The same customer gets the same ones again. */
app.post('/users/:reference', async (request, response) => {
  const {addresses} = await sluice.users.create({external_ref: request.params.reference})
  response.json(Object.fromEntries(addresses.map(({chain, address}) => [chain, address])))
})

app.get('/balance/:reference', (request, response) => {
  const balance: Record<string, string> = {}
  for (const {asset, amount} of creditsOf.all(request.params.reference) as {asset: string; amount: string}[])
    balance[asset] = Amount.add(balance[asset] ?? '0', amount)
  response.json(balance)
})

/** Pays out the whole balance of a token, once a day: the key makes a second request that day the same payout. */
app.post('/payouts/:chain/:token', async (request, response) => {
  const payout = request.params as Body<'createPayout'> // Sluice refuses a chain or a token that it does not have
  const idempotencyKey = `${new Date().toISOString().slice(0, 10)}-${payout.chain}-${payout.token}`
  response.status(202).json(await sluice.payouts.create(payout, {idempotencyKey}))
})

// Express 5 brings here what a route throws, and the promises that reject.
const answerError: ErrorRequestHandler = (error, _request, response, next) => {
  if (error instanceof WebhookError) response.status(400).json({error: error.reason, message: error.message})
  else if (error instanceof ApiError) response.status(error.status).json({error: error.code, message: error.message})
  else next(error) // 500
}
app.use(answerError)

app.listen(Number(setting('PORT')), '127.0.0.1') // your web server is before it, with the certificate
