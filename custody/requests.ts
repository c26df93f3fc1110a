// What comes over the socket: intents of every family, told apart by their names. Where two families have the same
// name, no request is read.
import {z} from 'zod'
import type {Family} from '../chains/registry.ts'
import {families, familyNames} from './families.ts'
import {type Intent, id} from './intents.ts'

/** An intent, and whose it is. */
export interface Asked {
  family: Family
  intent: Intent
}

const [first, ...others] = familyNames.map(family =>
  families[family].intents.transform((intent): Asked => ({family, intent})),
)
const AnyIntent = z.discriminatedUnion('intent', [first!, ...others])

export const SignRequest = z.strictObject({intents: z.array(AnyIntent).min(1).max(200)})
export const CheckRequest = z.strictObject({payout_id: id})
