// The committed bytecode against its sources.
import {expect, test} from 'vitest'
import {compile, families} from './compile.ts'

test.each(families)(
  "devnet/%s/contracts.json is the compiler's output for its contracts (else: node devnet/compile.ts)",
  async family => {
    const {default: contracts} = await import(`./${family}/contracts.json`, {with: {type: 'json'}})
    expect(await compile(family)).toEqual(contracts)
  },
)
