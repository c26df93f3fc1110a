// The types that the routes of the pages use, and what a refusal of the database means for a form. A handler returns
// the text of a page.

import type {IncomingMessage, ServerResponse} from 'node:http'
import type {FastifyBaseLogger, FastifyInstance, RawServerDefault} from 'fastify'
import type pg from 'pg'
import type {ChainSettings} from '../../chains/families.ts'
import type {ChainCode} from '../../chains/registry.ts'
import type {Data, Me} from './data.ts'
import {sentence as sentenceOf} from './view.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What the session may see and do. */
    data: Data
    me: Me
    /**
     * Of a form that was sent: its own URL, with what was typed in its query. If the second factor has to be shown
     * first, the form is shown again.
     */
    formUrl: string
  }
}

export type App = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger>

export interface Context {
  /** The settings of each chain, run here or not. */
  chains: ReadonlyMap<ChainCode, ChainSettings>
  /** Webhooks to http URLs, and to private addresses, are allowed. */
  webhookAllowPrivate: boolean
  /** Where the API listens, for examples. */
  apiUrl: string
  /** How long a payout waits for the whitelist before it fails. */
  payoutTimeoutMs: number
  /** Until a payment request expires, if whoever makes it says nothing else. */
  paymentExpiryMs: number
  paymentLateAfterMs: number
}

export const doneAlready = 'This was done already: nothing was done a second time.'

/** What a person reads when the database refuses what a form asks for; undefined if the error is none of that kind. */
export function refusalOf(error: unknown): string | undefined {
  const {code = '', message = ''} = error as Partial<pg.DatabaseError>
  if (code === 'SLDUP') return doneAlready
  return /^SL(409|422|429|404|SUS|PAY|TOK|CHN|INV|PFX)$/.test(code) ? sentence(message) : undefined
}

/** Why an endpoint is disabled, as app.refuse_disabled says it, in words. */
const disabled: Record<string, string> = {
  merchant: 'disabled by you',
  gone: 'disabled since it responded with 410 (gone)',
  failing: 'disabled after five days without a success',
}

const sentence = (text: string) =>
  sentenceOf(text.replace(/disabled \((\w+)\)/, (whole, reason: string) => disabled[reason] ?? whole))
