// The lists of rules fit the code. What each rule is worth is measured by npm run mutations.
import {existsSync} from 'node:fs'
import path from 'node:path'
import {expect, test} from 'vitest'
import {codeOf, root} from './mutation.ts'
import {lists} from './rules.ts'

test.each(Object.values(lists).flat())('the code that keeps this rule is found once: $rule', mutation => {
  const {from, to, tests} = mutation
  expect(codeOf(mutation, root).parts[1].split(from)).toHaveLength(2)
  expect(to).not.toBe(from)
  expect(tests.filter(each => !existsSync(path.join(root, each)))).toEqual([])
  expect(tests).not.toEqual([])
})
