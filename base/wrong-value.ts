// What is wrong with a value that somebody sent or typed, in words that go behind the name of its field. zod's own
// words are for programmers, and reach neither merchants nor people; a schema's words for its own rules are kept.
// `schema.safeParse(value, {error: whatIsWrong})` uses these.
import type {z} from 'zod'

type Issue = z.core.$ZodRawIssue

const kinds: Record<string, string> = {
  object: 'a JSON object',
  record: 'a JSON object',
  array: 'a JSON array',
  string: 'a JSON string',
  boolean: 'true or false',
  number: 'a whole number',
  int: 'a whole number',
}
const units: Record<string, string> = {string: 'characters', array: 'entries'}

const isKind = (value: unknown, kind: string) =>
  kind === 'array' ? Array.isArray(value) : typeof value === kind && !Array.isArray(value)

export function whatIsWrong(issue: Issue): string {
  const {input} = issue
  if (input === undefined) return 'is missing'
  switch (issue.code) {
    case 'invalid_type':
      if (Array.isArray(input) && !isKind(input, issue.expected) && issue.expected !== 'record')
        return 'must be given once'
      return `must be ${kinds[issue.expected] ?? issue.expected}`
    case 'invalid_value':
      return `must be ${issue.values.length > 1 ? 'one of ' : ''}${issue.values.join(', ')}`
    case 'too_small':
      return outOfBounds(issue.origin, 'least', issue.minimum)
    case 'too_big':
      return outOfBounds(issue.origin, 'most', issue.maximum)
    case 'invalid_key':
      return `has a name that ${issue.issues[0]?.message ?? 'cannot be used'}`
    default:
      return 'has a form that does not exist'
  }
}

function outOfBounds(of: string, bound: 'least' | 'most', value: number | bigint): string {
  const unit = units[of]
  if (unit && bound === 'least' && Number(value) === 1) return 'must not be empty'
  return unit ? `must have at ${bound} ${value} ${unit}` : `must be at ${bound} ${value}`
}
