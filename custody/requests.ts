// The requests that the socket takes: intents of every family, distinguished by name. Two families must not use the
// same name.
import {z} from 'zod'
import type {Family} from '../chains/registry.ts'
import {families, familyNames} from './families.ts'
import {Authorise, type Intent, id} from './intents.ts'

/** An intent, and its family. */
export interface Asked {
  family: Family
  intent: Intent
}

const [first, ...others] = familyNames.map(family =>
  families[family].intents.transform((intent): Asked => ({family, intent})),
)
const AnyIntent = z.discriminatedUnion('intent', [first!, ...others])

export const SignRequest = z.strictObject({intents: z.array(AnyIntent).min(1).max(200)})
export const AuthoriseRequest = z.strictObject({sweeps: z.array(Authorise).min(1).max(200)})
export const CheckRequest = z.strictObject({payout_id: id})
