// A rule that keeps money safe, and the change to the code that takes it out. The tests must notice: npm run mutations
// makes each change in a copy.
import path from 'node:path'

export const root = path.resolve(import.meta.dirname, '../..')

export interface Mutation {
  /** In a sentence: what holds because of this code. */
  rule: string
  file: string
  /** This text is once in the file, and is replaced. */
  from: string
  to: string
  /** Test files. At least one of their tests fails without the rule. */
  tests: string[]
}
