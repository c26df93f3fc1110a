// Merchants whose events reach a real HTTP receiver, for the tests of webhooks.

import {randomBytes} from 'node:crypto'
import {createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse} from 'node:http'
import type {AddressInfo} from 'node:net'
import type pg from 'pg'
import type {EventType} from '../../base/event-types.ts'

export interface Received {
  path: string
  headers: IncomingHttpHeaders
  body: string
  /** The body, parsed. */
  event: {id: string; type: string; sequence: number; txid: string}
}

export interface Receiver {
  url: string
  /** Every request so far, in order of arrival. */
  received: Received[]
  /** Makes the response; 204 by default. A handler that never responds hangs. */
  response: (request: Received, response: ServerResponse) => void
  close(): Promise<void>
}

/** On this machine alone, or, for containers, at each of its addresses. */
export async function startReceiver(host = '127.0.0.1'): Promise<Receiver> {
  const server = createServer(async (request, response) => {
    const body = await textOf(request)
    const seen = {path: request.url!, headers: request.headers, body, event: JSON.parse(body)}
    receiver.received.push(seen)
    receiver.response(seen, response)
  })
  await new Promise<void>(resolve => server.listen(0, host, resolve))
  const receiver: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received: [],
    response: (_request, response) => response.writeHead(204).end(),
    close: () => {
      server.closeAllConnections()
      return new Promise(resolve => server.close(() => resolve()))
    },
  }
  return receiver
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

export const newSecret = () => `whsec_${randomBytes(24).toString('base64')}`

export interface Merchant {
  id: string
  /** An address of its user on ETH. */
  address: string
}

/** A merchant with one user who has an address on ETH. ETH is followed from here on. */
export async function createMerchant(client: pg.Pool | pg.ClientBase): Promise<Merchant> {
  const name = randomBytes(6).toString('hex')
  const address = `0x${randomBytes(20).toString('hex')}`
  const {rows} = await client.query<{id: string}>(
    `with merchant as (
       insert into app.merchant (name, prefix, fee_bps) values ($1, $1, 100) returning id
     ), owner as (
       insert into app.user (merchant_id, external_ref) select id, 'user' from merchant returning id, merchant_id
     )
     insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
     select 'ETH', $2, $2, id, merchant_id, true from owner returning merchant_id as id`,
    [name, address],
  )
  await client.query(`select chain.anchor('ETH', 'eip155:1', 0, '0x00', now())`)
  return {id: rows[0]!.id, address}
}

/** An endpoint for the events of deposits; returns its id. */
export async function createEndpoint(
  client: pg.Pool | pg.ClientBase,
  merchant: Merchant,
  {
    url,
    secret = newSecret(),
    types = ['deposit.pending', 'deposit.confirmed'],
  }: {url: string; secret?: string; types?: EventType[]},
): Promise<string> {
  const {rows} = await client.query<{id: string}>(
    'insert into app.webhook_endpoint (merchant_id, url, secret, event_types) values ($1, $2, $3, $4) returning id',
    [merchant.id, url, secret, types],
  )
  return rows[0]!.id
}

/** Deposits of 1 ETH, each with a deposit.pending event when the transaction commits; returns their txids. */
export async function deposit(client: pg.Pool | pg.ClientBase, merchant: Merchant, count = 1): Promise<string[]> {
  const txids = Array.from({length: count}, () => `0x${randomBytes(32).toString('hex')}`)
  await client.query(
    `insert into chain.transfer (id, chain, txid, output_index, block_height, block_hash, block_time, token, amount, sender, recipient)
     select 'ETH:' || txid || ':0', 'ETH', txid, 0, 1, '0x01', now(), 'ETH', 1e18, '0x0', $2
     from unnest($1::text[]) with ordinality as t (txid, n) order by n`,
    [txids, merchant.address],
  )
  return txids
}
