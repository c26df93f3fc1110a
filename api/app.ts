// The types that routes use. Promises: a handler returns the finished text of its reply, usually JSON built by
// Postgres, and Fastify sends it unchanged. The zod schema beside the handler has checked the request.
import type {IncomingMessage, ServerResponse} from 'node:http'
import type {FastifyBaseLogger, FastifyInstance, FastifyTypeProvider, RawServerDefault} from 'fastify'
import type {z} from 'zod'
import type {Scope} from '../base/scopes.ts'
import type {ChainSettings} from '../chains/families.ts'
import type {ChainCode} from '../chains/registry.ts'
import type {Databases} from './replica.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The merchant that the key belongs to; empty if a route needs no key. */
    merchantId: string
  }
  interface FastifyInstance {
    /** All metrics of this process. */
    metrics(): Promise<string>
  }
  interface FastifyContextConfig {
    /** Open to everybody: no key is checked, and no limit counts. All other routes need a key. */
    open?: boolean
    /** Needs no key, but counts for the merchant if a key is sent. */
    withoutKey?: boolean
    /** What the key must be allowed to do: read, unless the route changes something. */
    scope?: Scope
    /** Responds for as long as a page is open. */
    isStream?: boolean
    /** The methods of this path, if the route exists only to refuse other methods. */
    allow?: string
  }
}

interface TextReplies extends FastifyTypeProvider {
  validator: this['schema'] extends z.ZodType ? z.output<this['schema']> : unknown
  serializer: string
}

export type App = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, TextReplies>

export interface Context {
  db: Databases
  /** Webhooks to http URLs, and to private addresses, are allowed. */
  webhookAllowPrivate: boolean
  /** The settings of each chain, run here or not. */
  chains: ReadonlyMap<ChainCode, ChainSettings>
  /** The URL at which customers' browsers reach this server, without a trailing slash; known once it listens. */
  publicUrl(): string
  paymentExpiryMs: number
  paymentLateAfterMs: number
  /** /metrics is served here, too. */
  metricsOnApiPort: boolean
  /** /docs can send requests. */
  docsTry: boolean
}
