// The committed bytecode against its sources.
import {expect, test} from 'vitest'
import {compile} from './compile.ts'
import contracts from './contracts.json' with {type: 'json'}

test('devnet/contracts.json is what the compiler makes of devnet/contracts (else: node devnet/compile.ts)', async () => {
  expect(await compile()).toEqual(contracts)
})
