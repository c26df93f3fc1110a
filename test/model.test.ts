// The model test (test/model.ts) with a new seed each time: histories of payments on chains where transactions expire,
// by height or by time, or exclude each other by nonces or outputs, with everything that may go wrong, on the real SQL
// and the real custody. A failure names its seed, and how to run it again.
import {expect, test} from 'vitest'
import {runModel} from './support/made-up-tree.ts'

test('in every history of the model, each purpose is paid once at most, and everything ends', {
  timeout: 600_000,
}, async () => {
  const seed = Date.now() % 2 ** 31
  console.log(`model: seed ${seed}`)
  const {code, said} = await runModel(['--seed', String(seed), '--histories', '60', '--no-shrinking'], 'pipe')
  expect(code, `seed ${seed}\n${said}`).toBe(0)
})
