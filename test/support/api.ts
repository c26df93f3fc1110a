// The API on a real socket, and its clients. Promises: each response that passes through a client is checked against
// the OpenAPI document: the status is documented, and the body has exactly the documented fields.
import {randomBytes} from 'node:crypto'
import type {AddressInfo} from 'node:net'
import {getAddress} from 'viem'
import {expect} from 'vitest'
import {z} from 'zod'
import type {App} from '../../api/app.ts'
import {documentOf} from '../../api/openapi.ts'
import {type OpenApi, type Operation, responseOf, type Schema} from '../../api/openapi-document.ts'
import {buildServer} from '../../api/server.ts'
import {newKey} from '../../base/api-key.ts'
import {logger} from '../../base/log.ts'
import {scopes as allScopes, type Scope} from '../../base/scopes.ts'
import {readSettings} from '../../chains/settings.ts'
import {Outage} from '../../db/client/outage.ts'
import type {TestDatabase} from './database.ts'

export interface Api {
  url: string
  app: App
  close(): Promise<void>
}

interface Options {
  /** Absent: any free one. */
  port?: number
  rateLimitPerMinute?: number
  webhookAllowPrivate?: boolean
  replicaUrl?: string
  /** Absent: the URL it listens on. */
  publicUrl?: string
  paymentExpiryMs?: number
  metricsOnApiPort?: boolean
  docsTry?: boolean
  /** Settings of chains, by the names of their variables. */
  chainSettings?: Record<string, string>
}

export async function startApi(db: Pick<TestDatabase, 'url'>, options: Options = {}): Promise<Api> {
  const {rateLimitPerMinute = 1_000_000, webhookAllowPrivate = true, replicaUrl, publicUrl} = options
  const {chains, paymentExpiryMs, paymentLateAfterMs} = readSettings(options.chainSettings ?? {})
  let url = ''
  const log = logger('api')
  log.level = 'fatal'
  const app = await buildServer({
    databaseUrl: db.url('sluice_api'),
    replicaUrl,
    rateLimitPerMinute,
    webhookAllowPrivate,
    chains,
    publicUrl: () => publicUrl ?? url,
    paymentExpiryMs: options.paymentExpiryMs ?? paymentExpiryMs,
    paymentLateAfterMs,
    metricsOnApiPort: options.metricsOnApiPort ?? false,
    docsTry: options.docsTry ?? false,
    log,
    outage: new Outage(log),
  })
  await app.listen({host: '127.0.0.1', port: options.port ?? 0})
  const {port} = app.server.address() as AddressInfo
  url = `http://127.0.0.1:${port}`
  return {url, app, close: () => app.close()}
}

export async function makeKey(
  db: Pick<TestDatabase, 'rows'>,
  merchantId: string,
  scopes: Scope[] = [...allScopes],
): Promise<{id: string; secret: string}> {
  const {secret, hash} = newKey()
  const [key] = await db.rows<{id: string}>('select app.create_api_key($1, $2, null, $3) as id', [
    merchantId,
    hash,
    scopes,
  ])
  return {id: key!.id, secret}
}

let filled = 0

/** Free addresses for later users. */
export async function fillPool(db: Pick<TestDatabase, 'rows'>, count: number): Promise<void> {
  const addresses = Array.from({length: count}, () => getAddress(`0x${randomBytes(20).toString('hex')}`))
  await db.rows(
    `insert into custody.address (address, family, derivation_index)
     select address, 'evm', $2::int + n from unnest($1::text[]) with ordinality as a (address, n)`,
    [addresses, filled],
  )
  filled += count
}

export interface Reply {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: its shape is checked against the schema of its route before a test sees it
  body: any
}

export class Client {
  readonly api: Api
  readonly #key: Record<string, string>

  constructor(api: Api, secret?: string, header: 'authorization' | 'x-api-key' = 'authorization') {
    this.api = api
    this.#key = secret ? {[header]: header === 'authorization' ? `Bearer ${secret}` : secret} : {}
  }

  /** Sends the body as JSON; a string or bytes unchanged. */
  async call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Reply> {
    const isRaw = typeof body === 'string' || body instanceof Uint8Array
    const response = await fetch(this.api.url + path, {
      method,
      headers: {
        ...this.#key,
        ...(body !== undefined && {'content-type': 'application/json'}),
        ...headers,
      },
      body: isRaw || body === undefined ? (body as string | undefined) : JSON.stringify(body),
    })
    const text = await response.text()
    const reply = {status: response.status, headers: response.headers, body: text ? JSON.parse(text) : undefined}
    if (method !== 'HEAD') checkShape(this.api.app, method, path, reply)
    return reply
  }

  get = (path: string) => this.call('GET', path)
  post = (path: string, body?: unknown) => this.call('POST', path, body)
  put = (path: string, body: unknown) => this.call('PUT', path, body)
  patch = (path: string, body: unknown) => this.call('PATCH', path, body)
  delete = (path: string) => this.call('DELETE', path)

  /** Reads every item of a list, page by page. */
  async all(path: string, key: string, limit: number, between: () => Promise<unknown> = async () => {}) {
    // biome-ignore lint/suspicious/noExplicitAny: as in Reply
    const items: any[] = []
    for (let cursor = ''; ; ) {
      const joined = `${path}${path.includes('?') ? '&' : '?'}limit=${limit}${cursor}`
      const {status, body} = await this.get(joined)
      expect(status).toBe(200)
      items.push(...body[key])
      expect(body.next_cursor === null).toBe(!body.has_more)
      if (!body.has_more) return items
      cursor = `&cursor=${body.next_cursor}`
      await between()
    }
  }
}

const errorCodes = /^[a-z]+(_[a-z]+)*$/

function checkShape(app: App, method: string, path: string, {status, body}: Reply): void {
  if (status >= 400 && path !== '/readyz') expect(body.error).toMatch(errorCodes)
  const operation = operationOf(app, method, path)
  if (!operation) return
  const response = operation.responses[status]
  expect(response, `${method} ${path} answers ${status}, which is not documented`).toBeDefined()
  const schema = responseOf(documentOf(app), response!).content?.['application/json']?.schema
  const result = schema ? strictly(schema, documentOf(app)).safeParse(body) : z.undefined().safeParse(body)
  expect(result.error?.issues, `${method} ${path} does not answer as documented`).toBeUndefined()
}

function operationOf(app: App, method: string, path: string): Operation | undefined {
  const parts = path.split('?')[0]!.split('/')
  for (const [url, methods] of Object.entries(documentOf(app).paths)) {
    const pattern = url.split('/')
    if (pattern.length === parts.length && pattern.every((part, n) => part.startsWith('{') || part === parts[n]))
      return methods[method.toLowerCase()]
  }
  return undefined
}

const strict = new Map<string, z.ZodType>()

/** The schema, with all fields forbidden that it does not name. */
export function strictly(schema: Schema, document: OpenApi): z.ZodType {
  const key = JSON.stringify(schema)
  let made = strict.get(key)
  if (!made) {
    const closed = JSON.stringify({...schema, $defs: document.components.schemas})
      .replaceAll('#/components/schemas/', '#/$defs/')
      .replaceAll('"properties":', '"additionalProperties":false,"properties":')
    made = z.fromJSONSchema(JSON.parse(closed))
    strict.set(key, made)
  }
  return made
}
