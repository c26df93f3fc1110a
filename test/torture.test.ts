// The torture of a whole service (test/torture) with a new seed each time: random payments, while processes,
// connections, blocks and responses of nodes fail. A failure names its seed, and how to run it again. Most of its time
// it waits for transactions to expire.
import {expect, test} from 'vitest'
import {root, runNode} from './support/made-up-tree.ts'

const seconds = '30'

test('after random payments and faults, everything equals the chains', {timeout: 1_200_000}, async () => {
  const seed = String(Date.now() % 2 ** 31)
  console.log(`torture: seed ${seed}`)
  const {ok, said} = await runNode(root, ['test/torture/main.ts', '--seed', seed, '--seconds', seconds])
  expect(ok, `seed ${seed}\n${said}`).toBe(true)
})
