// The webhook route of a Next.js app: app/webhooks/route.ts. It credits what customers paid in.
//   npm install @sluice/client; in .env.local: SLUICE_WEBHOOK_SECRET=…
import {DatabaseSync} from 'node:sqlite'
import {verify, WebhookError} from '@sluice/client'

// A row is both the credit and the id by which it happens once: they are saved in one transaction. The id is the
// deposit's: an event comes again under its own id, or, after Sluice was restored from a backup, under a new one.
// Amounts are text: a number would lose digits.
const db = new DatabaseSync('shop.db')
db.exec(`create table if not exists credit (
  deposit_id text primary key, reference text not null, asset text not null, amount text not null)`)
const saveOnce = db.prepare('insert into credit values (?, ?, ?, ?) on conflict (deposit_id) do nothing')

export async function POST(request: Request): Promise<Response> {
  const secret = process.env.SLUICE_WEBHOOK_SECRET
  if (!secret) throw new Error('SLUICE_WEBHOOK_SECRET is not set')
  try {
    // text(), not json(): the signature is over the body as it came. verify() throws unless Sluice sent it, just now.
    const event = verify(await request.text(), request.headers, secret)
    if (event.type === 'deposit.confirmed' && !event.test)
      saveOnce.run(event.deposit_id, event.user.external_ref, `${event.chain} ${event.token}`, event.amount)
  } catch (error) {
    if (error instanceof WebhookError) return Response.json({error: error.reason}, {status: 400})
    throw error // 500: Sluice sends it again
  }
  // Only now that it is saved. Whatever takes longer, do later.
  return new Response(null, {status: 204})
}
