// The values of the contract that several routes share, as zod schemas; the OpenAPI document is made from them.
import {z} from 'zod'
import {type FailureCode, failureCodes, type WaitingCode, waitingCodes} from '../base/reasons.ts'
import {text} from '../base/text.ts'
import {chainCodes} from '../chains/registry.ts'

export const externalRef = text(255).meta({
  description: 'Your own unique id of the user.',
  examples: ['customer-42'],
  maxLength: 255,
})
const mostEntries = 20
/** What a merchant notes about something of its own. */
export const metadata = z
  .record(text(100), text(500, 0))
  .refine(given => Object.keys(given).length <= mostEntries, `must have at most ${mostEntries} entries`)
  .meta({
    description: `Your own notes: at most ${mostEntries} strings of at most 500 characters, by names of at most 100.`,
    examples: [{plan: 'gold'}],
  })
/** A merchant's reference of a payment request. */
export const externalId = text(255).meta({
  description:
    'Your own reference: the prefix of your account, `-`, and any text. Each reference has one request, for ever.',
  examples: ['acme-1042'],
  maxLength: 255,
})
export const currency = z.string().meta({description: 'Name of an asset in `GET /v1/crypto`.', examples: ['ETH-USDC']})
/** What a payment request can be. */
export const paymentStatus = z.enum(['awaiting', 'detected', 'paid', 'expired', 'underpaid', 'cancelled'])
/** Why a payout failed. */
export const failureCode = z.enum(Object.keys(failureCodes) as FailureCode[])
/** Why a payout waits. */
export const waitingCode = z.enum(Object.keys(waitingCodes) as WaitingCode[])
export const chainCode = z.enum(chainCodes)
/**
 * A chain that a request names: any other text is refused by what the request asks for, because it is a matter of what
 * is supported.
 */
export const requestedChain = text(64).meta({enum: [...chainCodes], examples: ['ETH']})
export const chainList = z.array(requestedChain).min(1).max(50)
export const token = z.string().meta({description: 'Native coin or token of the chain.', examples: ['USDC']})
export const address = z.string().meta({examples: ['0x70997970C51812dc3A010C7d01b50e0d17dc79C8']})
export const txid = z.string().meta({
  description: 'Transaction id.',
  examples: ['0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060'],
})
export const amount = z.string().meta({description: 'Plain decimal, without trailing zeros.', examples: ['1.25']})
/** Hex is stored in lower case; base58 is left as it is. */
export const withoutCase = (txid: string) => (/^(0x)?[0-9a-f]{64}$/i.test(txid) ? txid.toLowerCase() : txid)
const [firstMoment, lastMoment] = [Date.parse('0001-01-02T00:00:00Z'), Date.parse('9999-12-30T00:00:00Z')]
/** A time in a query. */
export const moment = z.iso
  .datetime({offset: true, error: 'must be a time, such as 2026-11-23T00:00:00Z'})
  .refine(
    text => Date.parse(text) > firstMoment && Date.parse(text) < lastMoment,
    'must be a time from the year 1 to the year 9999',
  )
/** A moment as the database reads it. */
export const utc = (time: string | undefined) => (time === undefined ? undefined : new Date(time).toISOString())
export const timestamp = z.string().meta({format: 'date-time', examples: ['2026-01-31T12:00:00.000Z']})

const prefixes = {
  usr: 'usr_0192f3a4b5c67d8e9fa0b1c2d3e4f506',
  dep: 'dep_0192f3a4b5c67d8e9fa0b1c2d3e4f507',
  pay: 'pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508',
  evt: 'evt_0192f3a4b5c67d8e9fa0b1c2d3e4f509',
  whe: 'whe_0192f3a4b5c67d8e9fa0b1c2d3e4f50a',
  dlv: 'dlv_0192f3a4b5c67d8e9fa0b1c2d3e4f50b',
}
type Prefix = keyof typeof prefixes

/** An id as clients see it. Any string passes: an impossible id gets the same error as one that does not exist. */
export function id(prefix: Prefix) {
  return z.string().meta({examples: [prefixes[prefix]]})
}

const idPattern = /^([a-z]{3})_([0-9a-f]{32})$/

/** The uuid (32 hex digits) of an id that clients sent; undefined where it can be none of this kind. */
export function uuidOf(prefix: Prefix, publicId: string): string | undefined {
  const match = idPattern.exec(publicId)
  return match?.[1] === prefix ? match[2] : undefined
}

export const pageLimit = (unless: number) =>
  z.coerce.number().int().min(1).max(200).default(unless).describe('Items per page.')

export const pageQuery = {
  limit: pageLimit(50),
  cursor: z.string().optional().describe('`next_cursor` of the page before, with the same filters.'),
}

/** The reply of a list: the items under `key`, newest first. */
export function pageOf<Key extends string, Item extends z.ZodType>(key: Key, item: Item) {
  return z
    .object({
      ...({[key]: z.array(item)} as Record<Key, z.ZodArray<Item>>),
      next_cursor: z
        .string()
        .nullable()
        .meta({
          description: 'Cursor of the next page; null on the last one.',
          examples: ['AQAAAAAAAAAAAAAAAAAAAAKISNVo'],
        }),
      has_more: z.boolean(),
    })
    .describe('One page of the list.')
}

export const Address = z.object({chain: chainCode, address}).meta({id: 'Address'})
