// A family of chains is a plug: a copy of this tree gets one that nobody here knows (test/made-up-family: a fake chain, a folder for each room) by its
// name and a chain in the registry, and a line in each list of families. Where a line is missing the copy does not compile; with all of them it
// does, keeps the import rules, and passes the conformance suite.
import {execFile} from 'node:child_process'
import {cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {afterAll, beforeAll, expect, test} from 'vitest'

const root = path.resolve(import.meta.dirname, '../..')
const family = path.join(root, 'test/made-up-family')
const notCopied = ['.git', '.sluice', 'node_modules']
let copy: string

/** A part of a file, and what stands there afterwards. */
type Edit = [before: string, after: string]

const lists: Record<string, Edit[]> = {
  'chains/families.ts': named('./madeup/family.ts'),
  'chains/clients.ts': loaded(`() => import('./madeup/client.ts')`),
  'indexers/families.ts': loaded(`() => import('./madeup/family.ts')`),
  'jobs/payouts/families.ts': loaded(`() => import('./madeup/family.ts')`),
  'jobs/audit/families.ts': named('./madeup/held.ts'),
  'custody/families.ts': named('./madeup/family.ts'),
  'devnet/families.ts': loaded(`async () => (await import('./madeup/family.ts')).madeup`),
  'test/conformance/families.ts': [
    ['import type {Family}', `import {madeup} from './madeup.ts'\nimport type {Family}`],
    ['evm: [ethereum],', 'madeup: [madeup], evm: [ethereum],'],
  ],
}

function named(file: string): Edit[] {
  return [
    ['import type {', `import {madeup} from '${file}'\nimport type {`],
    ['{evm, bitcoin}', '{evm, bitcoin, madeup}'],
  ]
}

function loaded(load: string): Edit[] {
  return [['  evm: ', `  madeup: ${load},\n  evm: `]]
}

const registry: Edit[] = [
  [
    'export type Chain = EvmChain |',
    `export interface MadeUpChain extends CommonChain {\n  family: 'madeup'\n}\n\nexport type Chain = MadeUpChain | EvmChain |`,
  ],
  [
    'export const chains: Chain[] = [',
    `export const chains: Chain[] = [
      {
        code: 'SOL',
        displayName: 'Made up',
        family: 'madeup',
        assets: [{token: 'MADE', name: 'MADE', displayName: 'Made-up coin', decimals: 2, usualMinPayout: 1n}],
        feeBudget: '0',
        stallTimeoutMs: 180_000,
        pollIntervalMs: 200,
      },`,
  ],
]

beforeAll(() => {
  copy = mkdtempSync(path.join(tmpdir(), 'sluice-made-up-'))
  const isCopied = (file: string) => file !== family && !notCopied.includes(path.basename(file))
  cpSync(root, copy, {recursive: true, filter: isCopied})
  for (const packages of ['node_modules', 'devnet/bitcoin/bcoin/node_modules'])
    symlinkSync(path.join(root, packages), path.join(copy, packages))
})
afterAll(() => rmSync(copy, {recursive: true, force: true}))

test('a family that is only in the registry is asked for by every list, and by nothing else', {
  timeout: 300_000,
}, async () => {
  edit('chains/registry.ts', registry)
  const {ok, said} = await run('typescript/bin/tsc', '--noEmit', '--pretty', 'false')
  expect(ok).toBe(false)
  const errors = said.trim().split(/\n(?=\S)/)
  const missing = errors.filter(error => error.includes("Property 'madeup' is missing"))
  for (const of of [missing, errors]) expect(filesOf(of), said).toEqual(Object.keys(lists).sort())
})

test('a family with a folder in each room, and a line in each list, passes the conformance suite', {
  timeout: 600_000,
}, async () => {
  cpSync(family, copy, {recursive: true})
  for (const [list, edits] of Object.entries(lists)) edit(list, edits)
  const compiled = run('typescript/bin/tsc', '--noEmit')
  const walled = run('dependency-cruiser/bin/dependency-cruiser.mjs', '.')
  const suite = ['run', '--project', 'faults', 'test/conformance/conformance.test.ts', '-t', 'made up']
  const conforms = await run('vitest/vitest.mjs', ...suite)
  for (const {ok, said} of [await compiled, await walled, conforms]) expect(ok, said).toBe(true)
  expect(conforms.said).toMatch(/Tests +\d\d passed/)
})

function filesOf(errors: string[]): string[] {
  return [...new Set(errors.map(error => error.slice(0, error.indexOf('('))))].sort()
}

function edit(file: string, edits: Edit[]): void {
  const found = path.join(copy, file)
  let text = readFileSync(found, 'utf8')
  for (const [before, after] of edits) {
    expect(text, file).toContain(before)
    text = text.replace(before, () => after)
  }
  writeFileSync(found, text)
}

/** What vitest tells its own processes, and the server on which they have their template. */
const ofThisRun = /^(VITEST.*|NODE_ENV|TEST|SLUICE_TEST_DATABASE_URL|FORCE_COLOR)$/

/** Runs a program of node_modules in the copy. */
async function run(program: string, ...given: string[]): Promise<{ok: boolean; said: string}> {
  const inherited = Object.entries(process.env).filter(([name]) => !ofThisRun.test(name))
  const env = {...Object.fromEntries(inherited), NO_COLOR: '1'}
  const file = path.join(root, 'node_modules', program)
  return await new Promise(resolve => {
    execFile(process.execPath, [file, ...given], {cwd: copy, env, maxBuffer: 2 ** 26}, (error, out, err) =>
      resolve({ok: !error, said: `${out}${err}`}),
    )
  })
}
