// An unknown family of chains (test/made-up-family) passes the conformance suite, and custody pays on its chain, in a
// copy of this tree. That the copy compiles, and that without it the compiler names what is missing: test/conformance.
import {rmSync} from 'node:fs'
import {expect, test} from 'vitest'
import {makeTree, runIn} from '../support/made-up-tree.ts'

test('a family with a folder in each room, and a line in each list, passes the conformance suite', {
  timeout: 900_000,
}, async () => {
  const copy = makeTree()
  try {
    const files = ['test/conformance/conformance.test.ts', 'custody/madeup']
    const {ok, said} = await runIn(copy, 'vitest/vitest.mjs', 'run', ...files, '-t', 'made up')
    expect(ok, said).toBe(true)
    expect(said).toMatch(/Test Files +5 passed[\s\S]*Tests +\d\d passed/)
  } finally {
    rmSync(copy, {recursive: true, force: true})
  }
})
