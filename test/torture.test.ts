// The torture of a whole service (test/torture) with a new seed each time: random payments, while processes,
// connections, blocks and responses of nodes fail. A failure names its seed, and how to run it again. Most of its time
// it waits for transactions to expire.
import {execFile} from 'node:child_process'
import {fileURLToPath} from 'node:url'
import {expect, test} from 'vitest'

const program = fileURLToPath(new URL('torture/main.ts', import.meta.url))
const seconds = '30'

test('after random payments and faults, everything equals the chains', {timeout: 1_200_000}, async () => {
  const seed = String(Date.now() % 2 ** 31)
  console.log(`torture: seed ${seed}`)
  const {isRight, said} = await run(['--seed', seed, '--seconds', seconds])
  expect(isRight, `seed ${seed}\n${said}`).toBe(true)
})

async function run(given: string[]): Promise<{isRight: boolean; said: string}> {
  return await new Promise(resolve => {
    execFile(process.execPath, [program, ...given], {maxBuffer: 2 ** 26}, (error, out, err) =>
      resolve({isRight: !error, said: `${out}${err}`}),
    )
  })
}
