// Comments wrap at the width of the code, which the formatter does not see to.
import {globSync, readFileSync} from 'node:fs'
import path from 'node:path'
import {expect, test} from 'vitest'

const root = path.resolve(import.meta.dirname, '..')
const width = 120

test('comments wrap at 120 columns', () => {
  // Not in SQL: the files of db/tables never change, and a migration applies a changed file of the others again.
  const files = globSync('**/*.ts', {cwd: root, exclude: ['**/node_modules/**', '.sluice/**', '**/*.generated.ts']})
  expect(files.length).toBeGreaterThan(500)
  const isTooLong = (line: string) => /^\s*(\/\/|\/\*\*|\*) (?!biome-ignore)/.test(line) && line.length > width
  const tooLong = files.filter(file => readFileSync(path.join(root, file), 'utf8').split('\n').some(isTooLong))
  expect(tooLong).toEqual([])
})
