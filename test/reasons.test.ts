// The one table of reasons: whoever gives a reason, and whatever speaks of one, agrees with it.
import {cpSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {expect, test} from 'vitest'
import {failureCodes, type Reason, reasons, waitingCodes} from '../base/reasons.ts'
import {reasonsInDocs} from './support/reasons-in-docs.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const textOf = (...patterns: string[]) =>
  globSync(patterns, {cwd: root})
    .filter(name => !/\.test\.ts$|base\/reasons/.test(name))
    .map(name => readFileSync(`${root}${name}`, 'utf8'))
    .join('\n')
const sql = textOf('db/functions/**/*.sql', 'db/views/**/*.sql')
const code = textOf('custody/**/*.ts', 'jobs/payouts/**/*.ts', 'db/client/failure.ts')

test.each(reasonsInDocs())('$file says of reasons what the table says; npm run snapshot writes it', ({is, toBe}) => {
  expect(is).toBe(toBe)
})

test('each reason of the table is given somewhere, and so is each code that merchants read', () => {
  const isGiven = (name: string) => code.includes(`'${name}'`) || sql.includes(`'${name}'`)
  expect(Object.keys(reasons).filter(name => !isGiven(name))).toEqual([])
  const all = Object.values<Reason>(reasons)
  expect(Object.keys(waitingCodes).filter(name => !all.some(({merchant}) => merchant === name))).toEqual([])
  const fails = new Set<string>(all.map(({fails = 'timed_out'}) => fails))
  expect(Object.keys(failureCodes).filter(name => !fails.has(name) && !isGiven(name))).toEqual([])
})

test('SQL gives no reason and no failure that the table does not have', () => {
  const given = [
    ...sql.matchAll(/waiting_reason (?:=|<>) '(\w+)'|'(\w+)' as reason\b|select '(\w+)', .* into reason, detail/g),
  ].flatMap(match => match.slice(1).filter(name => name !== undefined))
  expect(given.length).toBeGreaterThan(10)
  expect(given.filter(name => !(name in reasons))).toEqual([])
  const failed = [...sql.matchAll(/app\.(?:fail|release)_payout\([^,]+, '(\w+)'/g)].map(([, name]) => name!)
  expect(failed.length).toBeGreaterThan(5)
  expect(failed.filter(name => !(name in failureCodes))).toEqual([])
})

test('a new reason is one entry: each file that does not have it yet is named, and npm run snapshot writes it there', async () => {
  const tree = mkdtempSync(path.join(tmpdir(), 'sluice-reasons-'))
  cpSync(path.join(root, 'docs'), path.join(tree, 'docs'), {recursive: true})
  for (const name of ['base/reasons.ts', 'test/support/reasons-in-docs.ts'])
    cpSync(path.join(root, name), path.join(tree, name))
  const table = path.join(tree, 'base/reasons.ts')
  const entry = `{isRefusal: true, ends: 'by a person', fails: 'timed_out', alarm: 'never', why: 'it is made up', do: 'nothing'}`
  const text = readFileSync(table, 'utf8')
  writeFileSync(
    table,
    text.replace('export const reasons = {', found => `${found} made_up: ${entry},`),
  )
  const docs: {reasonsInDocs: typeof reasonsInDocs; writeReasonsInDocs(): void} = await import(
    path.join(tree, 'test/support/reasons-in-docs.ts')
  )
  const forgotten = () =>
    docs
      .reasonsInDocs()
      .filter(({is, toBe}) => is !== toBe)
      .map(({file}) => path.relative(tree, fileURLToPath(file)))
  expect(forgotten()).toEqual(['docs/custody.md', 'docs/operations.md', 'docs/operations/alerts.yml'])
  docs.writeReasonsInDocs()
  expect(forgotten()).toEqual([])
  expect(readFileSync(path.join(tree, 'docs/operations.md'), 'utf8')).toContain(
    '| `made_up` | it is made up | nothing; else the payout fails in the end with `timed_out` |\n',
  )
  rmSync(tree, {recursive: true})
})
