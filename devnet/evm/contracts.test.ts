// The committed bytecode against its sources.
import {expect, test} from 'vitest'
import {compile} from './compile.ts'
import contracts from './contracts.json' with {type: 'json'}

test("devnet/evm/contracts.json is the compiler's output for devnet/evm/contracts (else: node devnet/evm/compile.ts)", async () => {
  expect(await compile()).toEqual(contracts)
})
