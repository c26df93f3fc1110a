// A family of chains is a plug-in. A copy of this tree gets an unknown family (test/made-up-family: a fake chain, and
// the folders of a family). Its name and a chain are added to the registry, and a line to each list of families. With
// all lines, the copy compiles, and keeps the import rules. Without the lines it does not compile, and the compiler
// names each list. (That it passes the conformance suite: test/long/made-up-family.test.ts.)
import {rmSync} from 'node:fs'
import path from 'node:path'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {lists, makeRegisteredTree, makeTree, type Ran, root, runIn, runNode} from '../support/made-up-tree.ts'

interface Wrong {
  file: string
  message: string
}

/** With everything, and without the lines. */
let copy: string
let registered: string
/** Started at once, because they take long. */
let compiled: Promise<{lines: Wrong[]; all: Wrong[]}>
let walled: Promise<Ran>

beforeAll(() => {
  copy = makeTree()
  registered = makeRegisteredTree()
  compiled = compile()
  walled = compiled.then(() => runIn(copy, 'dependency-cruiser/bin/dependency-cruiser.mjs', '.'))
})
afterAll(async () => {
  await Promise.allSettled([walled])
  for (const tree of [copy, registered]) rmSync(tree, {recursive: true, force: true})
})

const timeout = 600_000

test('every list requires a new family of the registry, and nothing else does', {timeout}, async () => {
  const {lines} = await compiled
  expect(filesOf(lines.filter(isAsked)), said(lines)).toEqual(Object.keys(lists).sort())
  expect(filesOf(lines), said(lines)).toEqual(Object.keys(lists).sort())
})

test('a family with a folder in each room, and a line in each list, compiles, and keeps the import rules', {
  timeout,
}, async () => {
  const {all} = await compiled
  expect(all, said(all)).toEqual([])
  const {ok, said: found} = await walled
  expect(ok, found).toBe(true)
})

/** The errors without any line (and without the folders, which need them), and with all lines. */
async function compile(): ReturnType<() => typeof compiled> {
  return {lines: await wrongIn(registered), all: await wrongIn(copy)}
}

async function wrongIn(tree: string): Promise<Wrong[]> {
  const compiler = path.join(root, 'node_modules/typescript-7/bin/tsc')
  const {ok, said} = await runNode(tree, [compiler, '--noEmit', '--singleThreaded', '--pretty', 'false'])
  const wrong = [...said.matchAll(/^(\S+)\(\d+,\d+\): error (.*)$/gm)].map(([, file, message]) => ({
    file: file!,
    message: message!,
  }))
  if (ok !== (wrong.length === 0)) throw new Error(said)
  return wrong
}

const isAsked = ({message}: Wrong) => message.includes("Property 'madeup' is missing")

function filesOf(wrong: Wrong[]): string[] {
  return [...new Set(wrong.map(({file}) => file))].sort()
}

function said(wrong: Wrong[]): string {
  return wrong.map(({file, message}) => `${file}: ${message}`).join('\n')
}
