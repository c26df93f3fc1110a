// The one table of reasons: whoever gives a reason, and whatever speaks of one, agrees with it.
import {globSync, readFileSync} from 'node:fs'
import {fileURLToPath} from 'node:url'
import {expect, test} from 'vitest'
import {failureCodes, type Reason, reasons, waitingCodes} from './reasons.ts'
import {reasonsInDocs} from './reasons-in-docs.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const textOf = (...patterns: string[]) =>
  globSync(patterns, {cwd: root})
    .filter(name => !/\.test\.ts$|base\/reasons/.test(name))
    .map(name => readFileSync(`${root}${name}`, 'utf8'))
    .join('\n')
const sql = textOf('db/functions/**/*.sql', 'db/views/**/*.sql')
const code = textOf('custody/**/*.ts', 'jobs/payouts/**/*.ts', 'db/failure.ts')

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
