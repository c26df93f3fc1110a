// A family of chains is a plug-in. A copy of this tree gets an unknown family (test/made-up-family: a fake chain, and
// the folders of a family). Its name and a chain are added to the registry, and a line to each list of families. With
// all lines, the copy compiles, keeps the import rules, and passes the conformance suite. Without the lines it does not
// compile, and the compiler names each list.
import {execFile} from 'node:child_process'
import {readFileSync, rmSync} from 'node:fs'
import path from 'node:path'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {lists, makeTree, root} from '../support/made-up-tree.ts'
import type {Variant, Wrong} from './compile.ts'

let copy: string
/** Started at once, because they take long. */
let compiled: Promise<{lines: Wrong[]; all: Wrong[]}>
let walled: Promise<Ran>
let conforms: Promise<Ran>

beforeAll(() => {
  copy = makeTree()
  conforms = runTool(
    'vitest/vitest.mjs',
    'run',
    'test/conformance/conformance.test.ts',
    'custody/madeup',
    '-t',
    'made up',
  )
  compiled = compile()
  walled = compiled.then(() => runTool('dependency-cruiser/bin/dependency-cruiser.mjs', '.'))
})
afterAll(async () => {
  await Promise.allSettled([conforms, walled])
  rmSync(copy, {recursive: true, force: true})
})

const timeout = 600_000

test('every list requires a new family of the registry, and nothing else does', {timeout}, async () => {
  const {lines} = await compiled
  expect(filesOf(lines.filter(isAsked)), said(lines)).toEqual(Object.keys(lists).sort())
  expect(filesOf(lines), said(lines)).toEqual(Object.keys(lists).sort())
})

test('a family with a folder in each room, and a line in each list, passes the conformance suite', {
  timeout,
}, async () => {
  const {all} = await compiled
  expect(all, said(all)).toEqual([])
  for (const {ok, said} of [await walled, await conforms]) expect(ok, said).toBe(true)
  expect((await conforms).said).toMatch(/Test Files +5 passed[\s\S]*Tests +\d\d passed/)
})

/** The errors without any line (and without the folders, which need them), and with all lines. */
async function compile(): ReturnType<() => typeof compiled> {
  const texts = Object.fromEntries(Object.keys(lists).map(list => [list, readFileSync(path.join(root, list), 'utf8')]))
  const none: Variant = {texts, without: ['/madeup/', '/test/model/']}
  const {ok, said} = await run(['test/conformance/compile.ts', '.'], JSON.stringify([none, {}]))
  if (!ok) throw new Error(said)
  const [lines, all]: [Wrong[], Wrong[]] = JSON.parse(said)
  return {lines, all}
}

const isAsked = ({message}: Wrong) => message.includes("Property 'madeup' is missing")

function filesOf(wrong: Wrong[]): string[] {
  return [...new Set(wrong.map(({file}) => file))].sort()
}

function said(wrong: Wrong[]): string {
  return wrong.map(({file, message}) => `${file}: ${message}`).join('\n')
}

/** What vitest passes to its own processes, and the server with their template. */
const ofThisRun = /^(VITEST.*|NODE_ENV|TEST|SLUICE_TEST_DATABASE_URL|FORCE_COLOR)$/

interface Ran {
  ok: boolean
  said: string
}

/** Runs a program of node_modules in the copy. */
async function runTool(program: string, ...given: string[]): Promise<Ran> {
  return await run([path.join(root, 'node_modules', program), ...given])
}

async function run(given: string[], input = ''): Promise<Ran> {
  const inherited = Object.entries(process.env).filter(([name]) => !ofThisRun.test(name))
  const env = {...Object.fromEntries(inherited), NO_COLOR: '1'}
  return await new Promise(resolve => {
    const child = execFile(process.execPath, given, {cwd: copy, env, maxBuffer: 2 ** 26}, (error, out, err) =>
      resolve({ok: !error, said: `${out}${err}`}),
    )
    child.stdin!.end(input)
  })
}
