// Parameters of a query that a route does not know. They are refused: a shop that misspells a filter, and ships because
// the list is not empty, would ship for the orders of others. (Unknown fields of a body are ignored.)
import {closest, distance} from 'fastest-levenshtein'

/** Why a parameter is refused, with the nearest of those that the route knows. */
export function whyUnknown(name: string, known: string[]): string {
  if (!known.length) return 'unknown parameter; there are none here'
  const nearest = closest(name.toLowerCase(), known)
  const isNear = distance(name.toLowerCase(), nearest) <= Math.max(2, nearest.length / 3)
  return `unknown parameter; ${isNear ? `did you mean ${nearest}?` : `there are ${known.join(', ')}`}`
}
