// What is said to be below a block is linked to it by hashes.
import {expect, test} from 'vitest'
import {Line} from './line.ts'

const block = (height: number, hash: string, parentHash: string) => ({
  slot: height + 100,
  height,
  hash,
  parentSlot: height + 99,
  parentHash,
  time: 0,
})

test('a block of another fork is not below one', () => {
  const line = new Line()
  const ours = [block(1, 'a', 'root'), block(2, 'b', 'a'), block(3, 'c', 'b')]
  for (const each of ours) line.note(each)
  expect(line.below(ours[2]!, 1)).toMatchObject({hash: 'a'})
  const theirs = block(3, 'z', 'y')
  line.note(theirs)
  expect(line.below(theirs, 2)).toBeUndefined()
  expect(line.below(theirs, 1)).toBeUndefined()
  expect(line.at(2)).toMatchObject({hash: 'b'})
})
