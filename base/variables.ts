// Environment variables, and how they are checked. Promises: every value is accepted, or gives a problem. A problem
// names the variable, its value (unless it may be a secret), the allowed values, and an example. A variable that may
// have a password can also be read from a file: the variable of the same name with _FILE then has the name of the file.
import {existsSync, readFileSync} from 'node:fs'
import path from 'node:path'
import {z} from 'zod'

export type Environment = Record<string, string | undefined>

/** Variables that are read together, and what they become. */
export interface Variables<T> {
  /** The names of the variables that have an effect. */
  names: string[]
  /** Undefined if any of them is wrong; `problems` then has a line for each. */
  read(environment: Environment, problems: string[]): T | undefined
}

interface Definition<Schema extends z.ZodObject, T> {
  /** By name. */
  schema: Schema
  make(given: z.infer<Schema>): T
  /** The beginning of the variables' names. */
  prefix?: string
  /** Variables whose names have it not. */
  unprefixed?: string[]
  /** Variables that may hold a password: also read from the file that the variable of this name with _FILE names. */
  inFiles?: string[]
  /** Other variables whose values are never shown. */
  secret?: string[]
  /** Variables that have no effect here. */
  unused?: string[]
}

export function variables<Schema extends z.ZodObject, T>(definition: Definition<Schema, T>): Variables<T> {
  const {schema, make, prefix = '', unprefixed = [], inFiles = [], secret = [], unused = []} = definition
  const names = Object.keys(schema.shape)
  const full = (name: string) => (unprefixed.includes(name) ? name : prefix + name)
  return {
    names: names
      .filter(name => !unused.includes(name))
      .flatMap(name => (inFiles.includes(name) ? [full(name), `${full(name)}_FILE`] : [full(name)])),
    read(environment, problems) {
      const values = names.map(name => readValue(environment, full(name), inFiles.includes(name), problems))
      const given = Object.fromEntries(names.map((name, index) => [name, values[index]]))
      const result = schema.safeParse(given)
      if (result.success) return make(result.data)
      for (const {path, message} of result.error.issues) {
        const name = String(path[0])
        const file = inFiles.includes(name) && environment[`${full(name)}_FILE`]
        const isSecret = inFiles.includes(name) || secret.includes(name)
        const was = file ? `_FILE${shownFile(file)}` : isSecret ? '' : shownValue(given[name] ?? '')
        problems.push(`  ${full(name)}${was}: ${message}`)
      }
      return undefined
    },
  }
}

/** The value of a variable, or of the file that is named for it; undefined if it is empty. */
function readValue(environment: Environment, name: string, mayBeInFile: boolean, problems: string[]) {
  const value = environment[name] || undefined
  const file = mayBeInFile && environment[`${name}_FILE`]
  if (!file) return value
  try {
    const content = readFileSync(file, 'utf8').trim() || undefined
    if (content && value) problems.push(`  ${name}, ${name}_FILE: set one of them, not both`)
    return content ?? value
  } catch (error) {
    const {code} = error as NodeJS.ErrnoException
    const why = `the file cannot be read (${code}); it must hold the value, such as ${name}_FILE=/run/secrets/${name.toLowerCase()}`
    problems.push(`  ${name}_FILE${shownFile(file)}: ${why}`)
    return value
  }
}

/** The name of a file for an error, in brackets. Empty if it may be the secret itself, set by mistake as the name. */
export function shownFile(file: string): string {
  const folder = path.dirname(path.resolve(file))
  const isName = existsSync(file) || (path.isAbsolute(file) && folder !== '/' && existsSync(folder))
  return isName ? ` (${file})` : ''
}

const longestShown = 100

const shownValue = (value: string) => ` (it is ${quoted(value)})`

/** A value for an error, on one line and not too long. */
export function quoted(value: string): string {
  return JSON.stringify(value.length > longestShown ? `${value.slice(0, longestShown)}…` : value)
}

// --- allowed values ---

/** Ten years: a longer time is a mistake. */
const longestMs = 315_360_000_000

/** A whole number, written in decimal digits. */
export function whole(min: number, max: number, example: number) {
  return z
    .string()
    .refine(
      text => /^\d{1,16}$/.test(text) && Number(text) >= min && Number(text) <= max,
      `must be a whole number, from ${min} to ${max}, such as ${example}`,
    )
    .transform(Number)
}

export const milliseconds = (min: number, example: number) => whole(min, longestMs, example)

export function choice<const T extends readonly string[]>(values: T) {
  return z.enum(values, {error: `must be one of ${values.join(', ')}`})
}

export const flag = choice(['0', '1']).transform(value => value === '1')

export function url(example: string, ...schemes: string[]) {
  const protocol = new RegExp(`^(${schemes.join('|')})$`)
  const starts = schemes.map(scheme => `${scheme}://`).join(' or ')
  return z.url({protocol, error: `must be a URL that starts with ${starts}, such as ${example}`})
}

export function plainText(what: string, maxLength: number, example: string) {
  return z
    .string()
    .regex(/^\P{Cc}*$/u, `must be ${what}, in one line, such as ${example}`)
    .max(maxLength, `must be ${what}, of at most ${maxLength} characters, such as ${example}`)
}

export const fileName = (example: string) => plainText('the name of a file', 4096, example)
