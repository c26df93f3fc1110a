// A copy of this tree with the made-up family (test/made-up-family) in it: its folders, a chain in the registry, and a
// line in each list of families.
import {execFile, spawn} from 'node:child_process'
import {once} from 'node:events'
import {cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'

export const root = path.resolve(import.meta.dirname, '../..')
const family = path.join(root, 'test/made-up-family')
const notCopied = ['.git', '.sluice', 'node_modules']

/** A part of a file, and its replacement. */
type Edit = [before: string, after: string]

/** What each list of families gets. */
export const lists: Record<string, Edit[]> = {
  'chains/families.ts': named('./madeup/family.ts'),
  'chains/clients.ts': loaded(`() => import('./madeup/client.ts')`),
  'indexers/families.ts': loaded(`() => import('./madeup/family.ts')`),
  'jobs/payouts/families.ts': loaded(`() => import('./madeup/family.ts')`),
  'jobs/audit/families.ts': loaded(`async () => (await import('./madeup/held.ts')).madeup`),
  'custody/families.ts': named('./madeup/family.ts'),
  'devnet/families.ts': loaded(`async () => (await import('./madeup/family.ts')).madeup`),
  'test/conformance/families.ts': [
    ['import type {Family}', `import {madeup} from './madeup/driver.ts'\nimport type {Family}`],
    ['evm: [ethereum],', 'madeup: [madeup], evm: [ethereum],'],
  ],
  'test/torture/families.ts': named('./madeup/family.ts'),
}

function named(file: string): Edit[] {
  return [
    ['import type {', `import {madeup} from '${file}'\nimport type {`],
    ['{evm, bitcoin, tron, solana}', '{evm, bitcoin, tron, solana, madeup}'],
  ]
}

function loaded(load: string): Edit[] {
  return [['  evm: ', `  madeup: ${load},\n  evm: `]]
}

const registry: Edit[] = [
  ['export const chainCodes = [', `export const chainCodes = ['MADEUP', `],
  [
    'export type Chain = EvmChain |',
    `export interface MadeUpChain extends CommonChain {\n  family: 'madeup'\n}\n\nexport type Chain = MadeUpChain | EvmChain |`,
  ],
  [
    'export const chains: Chain[] = [',
    `export const chains: Chain[] = [
      {
        code: 'MADEUP',
        displayName: 'Made up',
        family: 'madeup',
        assets: [{token: 'MADE', name: 'MADE', displayName: 'Made-up coin', decimals: 2, usualMinPayout: 1n, usualSweepMin: 1n}],
        feeBudget: '0',
        stallTimeoutMs: 180_000,
        pollIntervalMs: 200,
      },`,
  ],
]

/** Its folder; whoever asked for it removes it. */
export function makeTree(): string {
  const copy = makeRegisteredTree()
  cpSync(family, copy, {recursive: true})
  for (const [list, edits] of Object.entries(lists)) edit(path.join(copy, list), edits)
  return copy
}

/** Only the registry has the family: it has no folders, and is in no list. */
export function makeRegisteredTree(): string {
  const copy = mkdtempSync(path.join(tmpdir(), 'sluice-made-up-'))
  const isCopied = (file: string) => file !== family && !notCopied.includes(path.basename(file))
  cpSync(root, copy, {recursive: true, filter: isCopied})
  for (const packages of ['node_modules', 'devnet/bitcoin/bcoin/node_modules'])
    symlinkSync(path.join(root, packages), path.join(copy, packages))
  edit(path.join(copy, 'chains/registry.ts'), registry)
  return copy
}

function edit(file: string, edits: Edit[]): void {
  let text = readFileSync(file, 'utf8')
  for (const [before, after] of edits) {
    if (!text.includes(before)) throw new Error(`${file} lacks: ${before}`)
    text = text.replace(before, () => after)
  }
  writeFileSync(file, text)
}

/** Runs test/model/main.ts in a copy; what it said is known if it was piped. */
export async function runModel(given: string[], output: 'inherit' | 'pipe'): Promise<{code: number; said: string}> {
  const copy = makeTree()
  try {
    const program = ['test/model/main.ts', ...given]
    const child = spawn(process.execPath, program, {cwd: copy, stdio: ['ignore', output, output]})
    let said = ''
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', data => {
        said += data
      })
    const [code] = (await once(child, 'close')) as [number | null]
    return {code: code ?? 1, said}
  } finally {
    rmSync(copy, {recursive: true, force: true})
  }
}

/** What vitest passes to its own processes, and the server with their template. */
const ofThisRun = /^(VITEST.*|NODE_ENV|TEST|SLUICE_TEST_DATABASE_URL|FORCE_COLOR)$/

export interface Ran {
  ok: boolean
  said: string
}

/** Runs a program of node_modules in a copy. */
export async function runIn(copy: string, program: string, ...given: string[]): Promise<Ran> {
  return await runNode(copy, [path.join(root, 'node_modules', program), ...given])
}

export async function runNode(cwd: string, given: string[]): Promise<Ran> {
  const inherited = Object.entries(process.env).filter(([name]) => !ofThisRun.test(name))
  const env = {...Object.fromEntries(inherited), NO_COLOR: '1'}
  return await new Promise(resolve => {
    execFile(process.execPath, given, {cwd, env, maxBuffer: 2 ** 26}, (error, out, err) =>
      resolve({ok: !error, said: `${out}${err}`}),
    )
  })
}
