// A rule that keeps money safe, and the change to the code that takes it out. The tests must notice: npm run mutations
// makes each change in a copy.
import {readdirSync, readFileSync} from 'node:fs'
import path from 'node:path'

export const root = path.resolve(import.meta.dirname, '../..')

interface Change {
  /** In a sentence: what holds because of this code. */
  rule: string
  /** This text is once in the function, or the file, and is replaced. */
  from: string
  to: string
  /** Test files. At least one of their tests fails without the rule. */
  tests: string[]
}
/** Of a function of db/functions, wherever it stands, or of a file. */
export type Mutation = Change & ({function: string} | {file: string})

/** Where it stands, for people. */
export const placeOf = (mutation: Mutation): string => ('function' in mutation ? mutation.function : mutation.file)

/** The file in a tree, and its text before, in and behind the place of a mutation. */
export function codeOf(mutation: Mutation, tree: string): {file: string; parts: [string, string, string]} {
  if ('file' in mutation) {
    const file = path.join(tree, mutation.file)
    return {file, parts: ['', readFileSync(file, 'utf8'), '']}
  }
  const head = `create or replace function ${mutation.function}(`
  const folder = path.join(tree, 'db/functions')
  for (const name of readdirSync(folder, {recursive: true, encoding: 'utf8'})) {
    if (!name.endsWith('.sql')) continue
    const file = path.join(folder, name)
    const text = readFileSync(file, 'utf8')
    const from = text.indexOf(head)
    if (from < 0) continue
    const next = text.indexOf('\ncreate or replace function ', from)
    const to = next < 0 ? text.length : next
    return {file, parts: [text.slice(0, from), text.slice(from, to), text.slice(to)]}
  }
  throw new Error(`there is no function ${mutation.function} in db/functions`)
}
