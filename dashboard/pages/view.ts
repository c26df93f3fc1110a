// What views are made of, and made from.
import type {PageOptions} from '../layout.ts'

/** A page without whoever looks at it. */
export type View = Omit<PageOptions, 'person'>
/** What was typed into a form, or stands in a query. */
export type Fields = Record<string, string | string[] | undefined>

/** Fields that were left empty are absent. */
export const fieldsOf = (from: unknown): Fields =>
  Object.fromEntries(Object.entries(from ?? {}).filter(([, value]) => value !== ''))
export const one = (value: Fields[string]): string | undefined => (Array.isArray(value) ? value[0] : value)
export const many = (value: Fields[string]): string[] => (value === undefined ? [] : [value].flat())

/** A message of a program as a sentence for people. */
export const sentence = (text: string): string =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`
/** "1 deposit", "2 deposits". */
export const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`

/** A user's reference: one of spaces alone would leave nothing to click on. */
export const referenceOf = (externalRef: string): string => (externalRef.trim() ? externalRef : 'blank reference')

/** A reference as payment requests have it: behind the account's prefix, once. */
export const referenceWith = (prefix: string, text: string): string =>
  text.startsWith(`${prefix}-`) ? text : `${prefix}-${text}`

/** A path with a query; what is undefined or empty is left out. */
export function urlOf(path: string, query: Fields): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    many(value).map((each): [string, string] => [name, each]),
  )
  const text = new URLSearchParams(pairs.filter(([, value]) => value)).toString()
  return text ? `${path}?${text}` : path
}
