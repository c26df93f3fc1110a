// The client of Solana nodes, on what agave really answers (test/recorded/README.md): blocks link, amounts are exact,
// and what a node does not show, or does not take, is neither an error nor a fact. indexers/solana/recorded.test.ts
// reads the blocks.
import {afterEach, describe, expect, test} from 'vitest'
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import {recorded, replay} from '../../test/support/recorded.ts'
import type {RpcProxy} from '../../test/support/rpc-proxy.ts'
import {toBase58} from '../base58.ts'
import {systemProgram} from './address.ts'
import {Pruned, SolanaNode} from './client.ts'
import {parsePayment} from './message.ts'

let proxy: RpcProxy | undefined
afterEach(async () => {
  await proxy?.close()
  proxy = undefined
})

/** A node that knows these recordings. */
async function nodeOf(...names: string[]): Promise<SolanaNode> {
  proxy = await replay(...names)
  return new SolanaNode({url: proxy.httpUrl}, 2000)
}

test('the network, and the newest block with its height', async () => {
  const node = await nodeOf('solana/genesis', 'solana/latest')
  expect(await node.genesis()).toBe('GMBENx6kn3ruufijri29sHX8BmMpcBC9sVRB6LXyyZAK')
  const hash = '63DHWqibMYSN1mFn9AcW5uk15Ai498fX1EVQi7tDUxsM'
  expect(await node.latest('finalized')).toEqual({slot: 5155, height: 5155, hash}) // no slot was skipped on this network
})

describe('blocks', () => {
  test('link to each other, by hash, slot and height', async () => {
    const names = [
      'solana/block-plain',
      'solana/block-two',
      'solana/block-failed',
      'solana/block-rent',
      'solana/block-mkNonce',
      'solana/block-nonce',
      'solana/block-nonceWithdraw',
      'solana/block-mkStake',
      'solana/block-stake',
      'solana/block-v0',
      'solana/block-mkLut',
    ]
    const node = await nodeOf(...names)
    let below = await node.header(5084, 'finalized')
    for (let slot = 5085; slot <= 5094; slot++) {
      const header = await node.header(slot, 'finalized')
      expect(header).toMatchObject({slot, height: slot, parentSlot: below!.slot, parentHash: below!.hash})
      const {transactions, ...same} = (await node.block(slot, 'finalized'))!
      expect([same, transactions.length]).toEqual([header, 2])
      below = header
    }
  })

  test('of slots without one are not shown, and those that a node cleaned up are pruned', async () => {
    const node = await nodeOf('solana/block-skipped', 'solana/block-pruned')
    expect(await node.header(999_999_999, 'finalized')).toBeUndefined()
    expect(await node.block(999_999_999, 'finalized')).toBeUndefined()
    await expect(node.header(5, 'finalized')).rejects.toThrow(Pruned)
    await expect(node.block(5, 'finalized')).rejects.toThrow('cleaned up')
  })
})

test('transactions are final, failed, or not known', async () => {
  const node = await nodeOf('solana/statuses')
  const [plain, failed] = [
    'GUXEuJ1pgihw26ccNposyrDASWWVQfc93117XTQ71z3qsVFeMzPAQwvnERWTJDiPTiBS4iPrhoqDgqnFTvqtx44',
    'Caj35cGe36ECv9zkPh1Qhb9ru63f91TyiUq9omVmmjuKw6EV1xPe6Q4GegJiq6PxwRq1FRepbXHuCvSY7YCoGtR',
  ]
  expect(await node.statuses([plain, failed, '1'.repeat(64)])).toEqual([
    {slot: 5084, hasFailed: false, finalized: true},
    {slot: 5086, hasFailed: true, finalized: true},
    undefined,
  ])
})

test('the history of an account begins with the newest transaction', async () => {
  const mentions = await (await nodeOf('solana/mentions')).mentions('EygJpCusQjPccZVTdQeewKGuV9E4sG7k3NRdrAJAcSuB')
  expect(mentions).toEqual([
    {txid: expect.stringMatching(/^4fBykxY9/), slot: 5085},
    {txid: expect.stringMatching(/^GUXEuJ1p/), slot: 5084},
  ])
})

test('prices of a network on which nobody competes are 0', async () => {
  expect(await (await nodeOf('solana/recent-fees')).recentFees([])).toEqual(Array(23).fill(0n))
})

test('a node that has not come to a slot yet is asked again later', async () => {
  const asked = (await nodeOf('solana/min-context-slot')).balance(systemProgram, 'confirmed', 999_999_999)
  await expect(asked).rejects.toThrow(RetryableError)
  await expect(asked).rejects.toThrow('-32016')
})

test('an error that only this node knows is refused in its own words', async () => {
  const node = await nodeOf('solana/genesis')
  proxy!.behave = () => {
    throw Object.assign(new Error('try another region'), {code: -32_429})
  }
  expect(await node.send('AAAA')).toBe('try another region')
  await expect(node.genesis()).rejects.toThrow('the node refused getGenesisHash (-32429): try another region')
})

describe('a transaction that was sent', () => {
  const Sent = z.object({request: z.object({params: z.tuple([z.string()], z.unknown())})})
  const raw = (name: string) => recorded(name, Sent).request.params[0]
  const belowRent = 'solana/send-fee-payer-below-rent'
  const unchecked = 'solana/send-fee-payer-below-rent-without-preflight'
  const simulated = 'solana/simulate-fee-payer-below-rent'

  test('and would leave its payer less than the rent, is taken if the node does not check it first', async () => {
    expect([raw(unchecked), raw(simulated)]).toEqual([raw(belowRent), raw(belowRent)])
    expect(await (await nodeOf(unchecked)).send(raw(unchecked))).toBeUndefined()
    const {response} = recorded(unchecked, z.object({response: z.object({result: z.string()})}))
    const bytes = Buffer.from(raw(unchecked), 'base64')
    expect(toBase58(bytes.subarray(1, 65))).toBe(response.result)
    expect(() => parsePayment(bytes.toString('hex'))).toThrow('no payment') // it offers nothing for its place
  })

  test.each([
    [
      belowRent,
      'Transaction simulation failed: Transaction results in an account (0) with insufficient funds for rent',
    ],
    ['solana/send-garbage', 'failed to deserialize solana_transaction::versioned::VersionedTransaction: io error'],
  ])('(%s) was refused with the words of the node: %s', async (name, words) => {
    expect(await (await nodeOf(name)).send(raw(name))).toMatch(words)
  })
})
