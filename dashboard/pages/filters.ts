// What the lists can be asked for, as the address bar has it: it is the state of a list, and is stored nowhere.
import type {FastifyRequest} from 'fastify'
import {z} from 'zod'
import {whatIsWrong} from '../../base/wrong-value.ts'
import {chainCodes} from '../../chains/registry.ts'
import type {Asked, Page} from './data.ts'
import {before, read} from './form.ts'
import {type Fields, fieldsOf, many, one, sentence} from './view.ts'

const day = z.iso
  .date({error: 'must be a day, such as 2026-11-25'})
  .refine(text => text >= '1970', 'must be a day since 1970')
/** An amount as people type it. */
export const decimal = z
  .string()
  .trim()
  .max(100)
  .regex(/^(0|[1-9]\d*)(\.\d+)?$/, 'must be a plain decimal, such as 25.5')
const text = z.string().trim().max(255)

/** What people change, and prove, as actions of the audit log begin. */
export const auditedThings = [
  'api_key',
  'authenticator',
  'invitation',
  'passkey',
  'password',
  'payment_page',
  'payment_request',
  'payment_tolerance',
  'payout',
  'payout_address',
  'recovery_codes',
  'reset',
  'session',
  'sessions',
  'sign_in',
  'time_zone',
  'webhook_endpoint',
] as const

/** Each name with its form. A token is named with its chain, as ETH:USDC. */
const all = {
  from: day,
  to: day,
  paid_from: day,
  paid_to: day,
  chain: z.enum(chainCodes),
  currency: z.string().regex(/^[A-Z0-9]{1,20}:[\w.-]{1,64}$/, 'must be a chain and a token, such as ETH:USDC'),
  amount_from: decimal,
  amount_to: decimal,
  sender: text,
  address: text,
  user: text,
  /** Of a user's reference. */
  beginning: text,
  /** What an entry of the audit log is about. */
  action: z.enum(auditedThings),
  /** An e-mail address. */
  person: text,
}
export type FilterName = keyof typeof all

interface Filtered {
  asked: Asked
  /** What was typed and cannot be used, in words: the list is then empty. */
  problems: string[]
}

/** Reads the filters of a list from its query. What cannot be used is left out, and named. */
export function filtersOf(query: Fields, names: readonly FilterName[], statuses: readonly string[]): Filtered {
  const problems: string[] = []
  const asked: Asked = {}
  for (const name of names) {
    const value = one(query[name])
    if (value === undefined || value === '') continue
    const result = all[name].safeParse(value, {error: whatIsWrong})
    if (result.success) asked[name] = result.data
    else problems.push(sentence(`${name.replaceAll('_', ' ')} ${result.error.issues[0]!.message}`))
  }
  const wanted = statusesOf(query)
  if (wanted.length && statuses.length) {
    if (wanted.every(status => statuses.includes(status))) asked.status = wanted
    else problems.push(sentence(`status must be one of ${statuses.join(', ')}`))
  }
  const {currency, from, to, amount_from, amount_to, ...rest} = asked
  if (typeof amount_from === 'string' && typeof amount_to === 'string' && isAbove(amount_from, amount_to))
    problems.push('The least amount is above the greatest one.')
  const [chain, token] = typeof currency === 'string' ? currency.split(':') : []
  if (chain !== undefined && rest.chain !== undefined && rest.chain !== chain)
    problems.push('The currency is of another chain than the one that is chosen.')
  else if (chain !== undefined) Object.assign(rest, {chain, token})
  else if (amount_from ?? amount_to) {
    problems.push('An amount needs its currency: choose one.')
    return {asked: {...rest, from, to}, problems}
  }
  const isBackwards = (first: Asked[string], last: Asked[string]) => first && last && first > last
  if (isBackwards(from, to) || isBackwards(rest.paid_from, rest.paid_to)) {
    problems.push('The first day is after the last one.')
    const {paid_from: _from, paid_to: _to, ...others} = rest
    return {asked: {...others, amount_from, amount_to}, problems}
  }
  return {asked: {...rest, from, to, amount_from, amount_to}, problems}
}

/** Whether one plain decimal is greater than another: whole parts by their length, then digit by digit. */
function isAbove(first: string, second: string): boolean {
  const partsOf = (text: string) => text.replace(/(\.\d*?)0+$/, '$1').split('.') as [string, string?]
  const [[whole, part = ''], [otherWhole, otherPart = '']] = [partsOf(first), partsOf(second)]
  if (whole.length !== otherWhole.length) return whole.length > otherWhole.length
  return whole === otherWhole ? part > otherPart : whole > otherWhole
}

/** What a file is asked for: with a filter that cannot be used it would have more than that. Throws 400. */
export function askedOf(request: FastifyRequest, names: readonly FilterName[], statuses: readonly string[]): Asked {
  const {asked, problems} = filtersOf(fieldsOf(request.query), names, statuses)
  if (problems.length) throw Object.assign(new Error(problems.join(' ')), {statusCode: 400})
  return asked
}

/** Several stand in one parameter, or in several of this name. */
const statusesOf = ({status}: Fields): string[] => [
  ...new Set(many(status).flatMap(text => text.split(',').filter(each => each !== ''))),
]

interface ListOf<Item> {
  names: readonly FilterName[]
  statuses?: readonly string[]
  before?: z.ZodType<string | undefined>
  read(asked: Asked, before: string | undefined): Promise<Page<Item>>
}

export interface Listed<Item> {
  /** What the address bar has of filters, and where the page begins. */
  query: Fields
  page: Page<Item>
  problems: string[]
}

/** The page of a list that a request asks for. */
export async function listed<Item>(request: FastifyRequest, list: ListOf<Item>): Promise<Listed<Item>> {
  const {names, statuses = [], read: readPage} = list
  const given = fieldsOf(request.query)
  const query: Fields = {
    status: statusesOf(given).join(',') || undefined,
    ...Object.fromEntries(names.map(name => [name, one(given[name])])),
  }
  const start = read(z.object({before: list.before ?? before}), given).before
  const {asked, problems} = filtersOf(query, names, statuses)
  const shown = {query: {...query, before: start}, problems}
  // Rows of another question would be taken for the answer.
  if (problems.length) return {...shown, page: {items: [], next: null}}
  try {
    return {...shown, page: await readPage(asked, start)}
  } catch (error) {
    // Of what nobody has, there is nothing.
    if (!/^SL4(04|22)$/.test((error as {code?: string}).code ?? '')) throw error
    return {...shown, page: {items: [], next: null}, problems: [...problems, sentence((error as Error).message)]}
  }
}
