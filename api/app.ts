// The types that routes are written against. Promises: a handler returns the finished text of its reply, as a rule the JSON that
// Postgres built, and Fastify sends it as it is; what a request holds was checked by the zod schema beside the handler.
import type {IncomingMessage, ServerResponse} from 'node:http'
import type {FastifyBaseLogger, FastifyInstance, FastifyTypeProvider, RawServerDefault} from 'fastify'
import type {z} from 'zod'
import type {ChainSettings} from '../chains/families.ts'
import type {ChainCode} from '../chains/registry.ts'
import type {Databases} from './replica.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The merchant that the key belongs to; empty where a route needs no key. */
    merchantId: string
  }
  interface FastifyInstance {
    /** All that this process has for Prometheus. */
    metrics(): Promise<string>
  }
  interface FastifyContextConfig {
    /** For everybody: no key is looked at, and no limit counts. A route that does not say so needs a key. */
    open?: boolean
    /** Answers without a key, but counts for the merchant whose key is sent. */
    withoutKey?: boolean
    /** The methods of this path, where the route exists to refuse the others. */
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
  /** Where customers' browsers reach this server, without a slash at its end; known once it listens. */
  publicUrl(): string
  paymentExpiryMs: number
  /** /metrics is served here, too. */
  metricsOnApiPort: boolean
}
