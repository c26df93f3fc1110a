// The local Solana chain: the network's own library pays on it; what a block must not hold is not in one; data that a
// client has seen is there after a restart; reorganisations and troubles have the requested effect.
import {mkdtemp, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {afterEach, beforeEach, describe, expect, test} from 'vitest'
import {z} from 'zod'
import {chain as registered, type SolanaChain} from '../../chains/registry.ts'
import {recorded} from '../../test/support/recorded.ts'
import {SolanaApi} from './api.ts'
import {SolanaLocalChain} from './chain.ts'
import {newAddress} from './client.ts'
import {faucet, faucetBalance, faucetKey, finalLag, genesisHash, hashOf} from './constants.ts'
import {SolanaJournal} from './journal.ts'
import {addressOfKey, newKey} from './keys.ts'
import {payment, transactionWith, transfer} from './transaction.ts'

/** What Agave said. */
const Said = z
  .object({response: z.object({result: z.object({value: z.object({err: z.unknown()})})})})
  .transform(said => said.response.result.value.err)

const fee = 5000n
const rentMinimum = 650_240n

let chain: SolanaLocalChain
let api: SolanaApi

beforeEach(() => {
  chain = new SolanaLocalChain(new SolanaJournal(':memory:', 'SOL'))
  api = new SolanaApi(chain)
  chain.mine()
})
afterEach(() => chain.journal.close())

const pay = (
  to: string,
  amount: bigint,
  {key = faucetKey, on = chain.head.hash}: {key?: Uint8Array; on?: string} = {},
) => chain.submit(payment({key, on}, to, amount))
const balance = (address: string) => chain.account(address)?.lamports
const heightOf = (txid: string) => chain.journal.heightOf(txid)

/** The code of the error; undefined if there is none. */
function codeOf(method: string, ...params: unknown[]): number | undefined {
  try {
    api.answer(method, params)
  } catch (error) {
    return (error as {code: number}).code
  }
}

test('settings know the local network by its first block', () => {
  expect(genesisHash).toBe((registered('SOL') as SolanaChain).networks.local.genesis)
})

describe('transactions', () => {
  test('a payment moves its amount and costs its fee', () => {
    const to = newAddress()
    const txid = pay(to, 10n ** 9n)
    chain.mine()
    expect([heightOf(txid), balance(to)]).toEqual([2, 10n ** 9n])
    expect(balance(faucet)).toBe(faucetBalance - 10n ** 9n - fee)
  })

  test('an account may be drained to 0, and is gone then; it may not keep less than the rent minimum', () => {
    const key = newKey()
    const [from, to] = [addressOfKey(key), newAddress()]
    pay(from, 10n ** 9n)
    pay(to, rentMinimum)
    chain.mine()
    const kept = pay(to, 10n ** 9n - fee - 1n, {key})
    chain.mine()
    expect(api.answer('getSignatureStatuses', [[kept]])).toMatchObject({
      value: [{err: {InsufficientFundsForRent: {account_index: 0}}, confirmationStatus: 'confirmed'}],
    })
    expect(balance(from)).toBe(10n ** 9n - fee)
    pay(to, 10n ** 9n - 2n * fee, {key})
    chain.mine()
    expect([balance(from), balance(to)]).toEqual([undefined, rentMinimum + 10n ** 9n - 2n * fee])
    expect(api.answer('getMinimumBalanceForRentExemption', [0])).toBe(rentMinimum)
  })

  test.each([0n, 1n, fee - 1n])(
    'an account with %d lamports above the rent cannot pay for its own emptying; it is emptied if another one pays',
    more => {
      const key = newKey()
      const from = addressOfKey(key)
      pay(from, rentMinimum + more)
      chain.mine()
      const own = payment({key, on: chain.head.hash}, faucet, rentMinimum + more - fee)
      const txid = chain.submit(own)
      chain.mine(3)
      expect([heightOf(txid), balance(from)]).toEqual([undefined, rentMinimum + more])
      expect(() => chain.check(chain.parse(own))).toThrow(
        JSON.stringify(recorded('solana/simulate-fee-payer-below-rent', Said)),
      )
      const signing = {key: faucetKey, others: [key], on: chain.head.hash}
      const paid = chain.submit(transactionWith([transfer(from, faucet, rentMinimum + more)], signing))
      chain.mine()
      expect([heightOf(paid), balance(from)]).toEqual([chain.head.height, undefined])
    },
  )

  test('a simulation says how a transaction would end, whoever signed it and whichever block it names, if that is asked', () => {
    const key = newKey()
    pay(addressOfKey(key), rentMinimum)
    chain.mine()
    const simulate = (raw: Uint8Array, config: object) => {
      const text = Buffer.from(raw).toString('base64')
      return (api.answer('simulateTransaction', [text, {encoding: 'base64', ...config}]) as {value: {err: unknown}})
        .value.err
    }
    const asked = {sigVerify: false, replaceRecentBlockhash: true}
    const unsigned = payment({key, on: hashOf('of no block')}, faucet, rentMinimum - fee).fill(0, 1, 65)
    expect(simulate(unsigned, asked)).toEqual(recorded('solana/simulate-fee-payer-below-rent', Said))
    const tooMuch = payment({key: faucetKey, on: hashOf('of no block')}, newAddress(), 2n * faucetBalance).fill(
      0,
      1,
      65,
    )
    expect(simulate(tooMuch, asked)).toEqual({InstructionError: [1, {Custom: 1}]})
    const right = payment({key: faucetKey, on: hashOf('of no block')}, newAddress(), rentMinimum).fill(0, 1, 65)
    expect(simulate(right, asked)).toBeNull()
    expect(simulate(right, {sigVerify: false})).toBe('BlockhashNotFound')
    const forged = payment({key: faucetKey, on: chain.head.hash}, newAddress(), rentMinimum).fill(1, 1, 65)
    expect(simulate(forged, {sigVerify: false})).toBeNull()
    expect(() => simulate(forged, {sigVerify: true})).toThrow('signature verification')
    expect(() => simulate(right, {...asked, sigVerify: true})).toThrow('may not be used')
    expect(() => chain.check(chain.parse(forged))).toThrow('SignatureFailure') // signatures count again
  })

  test('an account with the rent and the fee can pay for its own emptying', () => {
    const key = newKey()
    pay(addressOfKey(key), rentMinimum + fee)
    chain.mine()
    const txid = pay(faucet, rentMinimum, {key})
    chain.mine()
    expect([heightOf(txid), balance(addressOfKey(key))]).toEqual([chain.head.height, undefined])
  })

  test('equal payments differ, and the same one is in one block', () => {
    const to = newAddress()
    const raw = payment({key: faucetKey, on: chain.head.hash}, to, 10n ** 9n)
    chain.submit(raw)
    chain.mine()
    chain.submit(raw)
    pay(to, 10n ** 9n)
    chain.mine()
    expect(balance(to)).toBe(2n * 10n ** 9n)
  })

  test('a blockhash is good up to one block above its last valid height, by which the RPC names it', () => {
    const {hash, height} = chain.head
    const [early, late] = [newAddress(), newAddress()]
    const [first, second] = [pay(early, 10n ** 9n, {on: hash}), pay(late, 10n ** 9n, {on: hash})]
    chain.mine(150, {only: []})
    expect(chain.head.height).toBe(height + 150)
    expect(api.answer('isBlockhashValid', [hash, {commitment: 'confirmed'}])).toMatchObject({value: true})
    chain.mine(1, {only: [first]})
    expect(heightOf(first)).toBe(height + 151)
    expect(chain.journal.pool()).toEqual([])
    expect(
      codeOf('sendTransaction', Buffer.from(payment({key: faucetKey, on: hash}, late, 1n)).toString('base64'), {
        encoding: 'base64',
      }),
    ).toBe(-32002)
    chain.mine()
    expect(heightOf(second)).toBeUndefined()
  })

  test.each<[string, number, () => Uint8Array]>([
    ['an unknown blockhash', -32002, () => payment({key: faucetKey, on: hashOf('none')}, newAddress(), 10n ** 9n)],
    ['no account that pays', -32002, () => payment({key: newKey(), on: chain.head.hash}, newAddress(), 10n ** 9n)],
    ['too little', -32002, () => payment({key: faucetKey, on: chain.head.hash}, newAddress(), 1n)],
    [
      'a wrong signature',
      -32003,
      () => {
        const raw = payment({key: faucetKey, on: chain.head.hash}, newAddress(), 10n ** 9n)
        raw[1]! ^= 1
        return raw
      },
    ],
    ['no transaction', -32602, () => new Uint8Array(9)],
  ])('with preflight, %s is refused', (_, code, raw) => {
    expect(codeOf('sendTransaction', Buffer.from(raw()).toString('base64'), {encoding: 'base64'})).toBe(code)
  })
})

describe('blocks', () => {
  const confirmed = {commitment: 'confirmed', transactionDetails: 'none'}

  test('slots are skipped, and blocks link by slot, height and hash', () => {
    const below = chain.block(chain.head.height)
    chain.mine(1, {skip: 3})
    const block = chain.block(chain.head.height)
    expect(block).toMatchObject({
      height: below.height + 1,
      slot: below.slot + 4,
      parentSlot: below.slot,
      parentHash: below.hash,
    })
    expect(api.answer('getBlocks', [below.slot, block.slot + 9, {commitment: 'confirmed'}])).toEqual([
      below.slot,
      block.slot,
    ])
    expect(codeOf('getBlock', below.slot + 1, confirmed)).toBe(-32007)
    expect(codeOf('getBlock', block.slot + 1, confirmed)).toBe(-32004)
    expect(codeOf('getBlock', block.slot, {...confirmed, commitment: 'processed'})).toBe(-32602)
  })

  test('each commitment has its own newest block, and its own balances', () => {
    const to = newAddress()
    pay(to, 10n ** 9n)
    chain.mine()
    const at = (commitment: string) => [
      api.answer('getBlockHeight', [{commitment}]),
      api.answer('getBalance', [to, {commitment}]),
    ]
    expect(at('confirmed')).toMatchObject([2, {value: 10n ** 9n}])
    expect(at('finalized')).toMatchObject([0, {value: 0n}])
    chain.mine(finalLag)
    expect(at('finalized')).toMatchObject([2, {value: 10n ** 9n}])
    expect(api.answer('getLatestBlockhash', [])).toMatchObject({
      value: {blockhash: chain.block(2).hash, lastValidBlockHeight: 152},
    })
  })

  test('a reorganisation skips the slots that it replaces; transactions are gone, or a block later', () => {
    const [a, b] = [newAddress(), newAddress()]
    pay(a, 10n ** 9n)
    chain.mine()
    const kept = pay(b, 10n ** 9n)
    const {slot} = chain.block(chain.mine().height)
    chain.reorg(1, {keepTransactions: true})
    expect([heightOf(kept), chain.head.height, balance(a)]).toEqual([4, 4, 10n ** 9n])
    expect(codeOf('getBlock', slot, confirmed)).toBe(-32007)
    chain.reorg(3)
    expect([heightOf(kept), chain.head.height]).toEqual([undefined, 5])
    expect([balance(a), balance(b), balance(faucet)]).toEqual([undefined, undefined, faucetBalance])
    const again = pay(a, 10n ** 9n, {on: chain.block(1).hash})
    chain.mine()
    expect([heightOf(again), balance(a)]).toEqual([6, 10n ** 9n])
  })

  test('pruned blocks are named so', () => {
    chain.mine(5)
    api.firstHeight = 4
    const first = chain.block(4).slot
    expect(api.answer('getFirstAvailableBlock', [])).toBe(first)
    expect(codeOf('getBlock', first - 1, confirmed)).toBe(-32001)
    expect(api.answer('getBlocks', [0, {commitment: 'confirmed'}])).toEqual([first, first + 1, first + 2])
  })

  test('what a client saw is there after a restart, with the slots that passed', async () => {
    const directory = await mkdtemp(path.join(tmpdir(), 'sluice-solana-'))
    const file = path.join(directory, 'chain.db')
    const to = newAddress()
    const open = () => new SolanaLocalChain(new SolanaJournal(file, 'SOL'))
    const first = open()
    first.mine()
    first.submit(payment({key: faucetKey, on: first.head.hash}, to, 10n ** 9n))
    first.mine(2)
    first.submit(payment({key: faucetKey, on: first.head.hash}, to, 10n ** 9n))
    first.skip(5)
    const [head, {slot}] = [first.head, first.block(3)]
    first.journal.close()
    const second = open()
    expect(second.head).toEqual(head)
    expect(second.account(to)?.lamports).toBe(10n ** 9n)
    second.mine()
    expect(second.block(4)).toMatchObject({slot: slot + 6, parentSlot: slot})
    expect(second.account(to)?.lamports).toBe(2n * 10n ** 9n)
    second.journal.close()
    await rm(directory, {recursive: true})
  })
})
