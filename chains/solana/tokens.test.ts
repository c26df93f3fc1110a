// Tokens of Solana from bytes: addresses that @solana/kit works out, too, and mints as the programs write them.
import {address as kitAddress} from '@solana/kit'
import {findAssociatedTokenPda, getMintEncoder, getTokenEncoder} from '@solana-program/token'
import fc from 'fast-check'
import {expect, test} from 'vitest'
import {addressOf, token2022Program, tokenProgram} from './address.ts'
import {
  associatedAccount,
  judgeMint,
  metadataAccount,
  parseMint,
  parseTokenAccount,
  refusalOfMint,
  textsIn,
  tokenPrograms,
} from './tokens.ts'

const key = fc.uint8Array({minLength: 32, maxLength: 32}).map(addressOf)
const usdc = 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v'
const issuer = 'J2xccRtuG43drESLYznHhLhQkLTdfepcKYbiQ9BsJVaf'

test('an associated account is the one that kit finds, whoever owns it', async () => {
  await fc.assert(
    fc.asyncProperty(
      key,
      key,
      fc.constantFrom('token' as const, 'token-2022' as const),
      async (owner, mint, program) => {
        const seeds = {
          owner: kitAddress(owner),
          mint: kitAddress(mint),
          tokenProgram: kitAddress(tokenPrograms[program]),
        }
        expect(associatedAccount(owner, mint, program)).toBe((await findAssociatedTokenPda(seeds))[0])
      },
    ),
    {numRuns: 200},
  )
})

test('the metadata of USDC is where Metaplex keeps it', () => {
  expect(metadataAccount(usdc)).toBe('5x38Kp4hvdomTCnCrAny4UtMUt5rQBdB6px2K1Ui45Wq')
})

// --- accounts ---

const accountOf = (state: 0 | 1 | 2, amount = 7n) =>
  Buffer.from(
    getTokenEncoder().encode({
      mint: kitAddress(usdc),
      owner: kitAddress(issuer),
      amount,
      delegate: null,
      state,
      isNative: null,
      delegatedAmount: 0n,
      closeAuthority: null,
    }),
  )

test('an account says whose it is, what it holds, and whether it is frozen', () => {
  const common = {mint: usdc, owner: issuer, amount: 7n, extensions: []}
  expect(parseTokenAccount({owner: tokenProgram, data: accountOf(1)})).toEqual({...common, isFrozen: false})
  expect(parseTokenAccount({owner: tokenProgram, data: accountOf(2)})).toEqual({...common, isFrozen: true})
  const withMemo = Buffer.concat([accountOf(1), Buffer.from([2, 7, 0, 0, 0, 8, 0, 1, 0, 1])])
  const extensions = ['ImmutableOwner', 'MemoTransfer']
  expect(parseTokenAccount({owner: token2022Program, data: withMemo})).toEqual({...common, isFrozen: false, extensions})
})

test('what is no account in use of a token program is none', () => {
  const wrong = [
    {owner: tokenProgram, data: accountOf(0)},
    {owner: issuer, data: accountOf(1)},
    {owner: tokenProgram, data: accountOf(1).subarray(0, 164)},
    {owner: token2022Program, data: Buffer.concat([accountOf(1), Buffer.alloc(190, 2)])}, // of several keys
    {owner: token2022Program, data: Buffer.concat([accountOf(1), Buffer.of(1)])}, // a mint
    {owner: tokenProgram, data: new Uint8Array()},
    undefined,
  ]
  expect(wrong.map(parseTokenAccount)).toEqual(wrong.map(() => undefined))
})

// --- mints ---

const mintOf = (supply = 1n) =>
  Buffer.from(
    getMintEncoder().encode({
      mintAuthority: kitAddress(issuer),
      supply,
      decimals: 6,
      isInitialized: true,
      freezeAuthority: null,
    }),
  )
const withExtensions = (...extensions: [number: number, data: Buffer][]) =>
  Buffer.concat([
    mintOf(),
    Buffer.alloc(165 - 82),
    Buffer.of(1),
    ...extensions.flatMap(([number, data]) => {
      const head = Buffer.alloc(4)
      head.writeUInt16LE(number)
      head.writeUInt16LE(data.length, 2)
      return [head, data]
    }),
  ])
const judged = (...extensions: [number: number, data: Buffer][]) =>
  judgeMint(parseMint({owner: token2022Program, data: withExtensions(...extensions)})!)

test('a mint says its decimals and who may make or freeze it; its hash changes with everything but its supply', () => {
  const mint = parseMint({owner: tokenProgram, data: mintOf()})!
  expect(mint).toMatchObject({
    program: 'token',
    decimals: 6,
    mintAuthority: issuer,
    freezeAuthority: undefined,
    extensions: [],
  })
  expect(parseMint({owner: tokenProgram, data: mintOf(99n)})!.hash).toBe(mint.hash)
  const others = [
    {owner: token2022Program, data: mintOf()},
    {owner: tokenProgram, data: mintOf().fill(7, 44, 45)},
    {owner: tokenProgram, data: mintOf().fill(9, 4, 5)},
    {owner: token2022Program, data: withExtensions([7, Buffer.alloc(0)])},
  ]
  expect(new Set([mint, ...others.map(other => parseMint(other)!)].map(({hash}) => hash)).size).toBe(5)
})

test('what is no mint of a token program is none', () => {
  const wrong = [
    {owner: issuer, data: mintOf()},
    {owner: tokenProgram, data: mintOf().fill(0, 45, 46)},
    {owner: tokenProgram, data: accountOf(1)},
    {owner: token2022Program, data: Buffer.concat([accountOf(1), Buffer.of(2)])}, // an account
    {owner: tokenProgram, data: new Uint8Array()},
    undefined,
  ]
  expect(wrong.map(parseMint)).toEqual(wrong.map(() => undefined))
})

const nobody = Buffer.alloc(32)
const somebody = Buffer.alloc(32, 7)
const fees = (who: Buffer, older = 0, newer = 0) => {
  const data = Buffer.concat([who, nobody, Buffer.alloc(44)])
  data.writeUInt16LE(older, 88)
  data.writeUInt16LE(newer, 106)
  return data
}

test('what says nothing about transfers is fine, and so is what nobody can use', () => {
  const pointers = [18, 20, 22].map((number): [number, Buffer] => [number, Buffer.alloc(64, 7)])
  const texts: [number, Buffer][] = [
    [19, Buffer.alloc(80)],
    [21, Buffer.alloc(80)],
    [23, Buffer.alloc(72)],
  ]
  expect(judged(...pointers, ...texts)).toEqual([])
  expect(judged([3, nobody], [14, Buffer.concat([somebody, nobody])], [1, fees(nobody)])).toEqual([])
})

test.each<[string, [number, Buffer], boolean]>([
  ['TransferFeeConfig', [1, fees(nobody, 1)], false],
  ['TransferFeeConfig', [1, fees(nobody, 0, 1)], false],
  ['TransferFeeConfig', [1, fees(somebody)], true],
  ['MintCloseAuthority', [3, somebody], true],
  ['ConfidentialTransferMint', [4, Buffer.alloc(65)], true],
  ['DefaultAccountState', [6, Buffer.of(2)], true],
  ['NonTransferable', [9, Buffer.alloc(0)], false],
  ['InterestBearingConfig', [10, Buffer.alloc(52)], true],
  ['PermanentDelegate', [12, somebody], true],
  ['TransferHook', [14, Buffer.concat([nobody, somebody])], false],
  ['ConfidentialTransferFeeConfig', [16, Buffer.alloc(129)], true],
  ['ConfidentialMintBurn', [24, Buffer.alloc(196)], true],
  ['ScaledUiAmount', [25, Buffer.alloc(56)], true],
  ['Pausable', [26, Buffer.alloc(33)], true],
  ['PermissionedBurn', [28, Buffer.alloc(32)], true],
  ['number 777', [777, Buffer.alloc(3)], true],
])('$0 is refused by its name; whether an operator may accept it: $2', (name, extension, isAcceptable) => {
  expect(judged(extension)).toMatchObject([{extension: name, isAcceptable}])
  const mint = parseMint({owner: token2022Program, data: withExtensions(extension)})!
  expect(refusalOfMint(mint, [])).toContain(`its extension ${name}: `)
  expect(refusalOfMint(mint, [name]) === undefined).toBe(isAcceptable)
})

test('what is accepted is accepted alone, and what is cut off, or too short, is not fine', () => {
  const both = parseMint({owner: token2022Program, data: withExtensions([12, somebody], [26, Buffer.alloc(33)])})!
  expect(refusalOfMint(both, ['PermanentDelegate'])).toBe('its extension Pausable: somebody can stop all transfers')
  const cut = parseMint({owner: token2022Program, data: withExtensions([19, somebody]).subarray(0, -1)})!
  expect(judgeMint(cut)).toMatchObject([{extension: 'too long', isAcceptable: true}])
  expect(judged([1, Buffer.alloc(40)])).toMatchObject([{extension: 'TransferFeeConfig', isAcceptable: false}])
})

test('names are read from metadata without what pads them; from too few bytes, none are', () => {
  const text = (value: string, length = value.length) => {
    const data = Buffer.alloc(4 + length)
    data.writeUInt32LE(length)
    data.write(value, 4)
    return data
  }
  const data = Buffer.concat([Buffer.alloc(65), text('USD Coin', 32), text('USDC', 10), text('')])
  expect(textsIn(data, 65)).toEqual({name: 'USD Coin', symbol: 'USDC'})
  expect(textsIn(data.subarray(0, 66), 65)).toBeUndefined()
})
