// Solana nodes that contradict themselves, hide something for ever, or answer from different times: what is read is one
// chain all the same, and nothing is proven by them. The chain is a local one, the node a proxy before it.
import {afterEach, beforeEach, expect, test} from 'vitest'
import {RetryableError} from '../../base/errors.ts'
import {SolanaNodes} from '../../chains/solana/client.ts'
import {messageOf, rawOf} from '../../chains/solana/message.ts'
import {SolanaLocalChain} from '../../devnet/solana/chain.ts'
import {newAddress} from '../../devnet/solana/client.ts'
import {faucet, faucetKey} from '../../devnet/solana/constants.ts'
import {SolanaJournal} from '../../devnet/solana/journal.ts'
import {addressOfKey, newKey} from '../../devnet/solana/keys.ts'
import {payment} from '../../devnet/solana/transaction.ts'
import {Trouble} from '../../devnet/solana/trouble.ts'
import {faults} from '../../test/support/rpc-proxy.ts'
import {type LyingNode, startNode} from '../../test/support/solana/node.ts'
import type {Expired} from '../cursor.ts'
import {SolanaSource} from './source.ts'

/** A payment by the faucet, as custody writes one; what is read of it is whose coins it moves. */
const ofFaucet = rawOf(
  messageOf({
    ...{from: faucet, feePayer: faucet, to: '5SHQQrjzHCMkZZJzYNhx9szLeYsVCYw4NNr8p7xT9BAY', amount: 1n},
    ...{blockhash: faucet, computeUnitLimit: 1000, priorityFee: 0n},
  }),
  [new Uint8Array(64)],
)

const sol = 10n ** 9n
const finalized = 5

let chain: SolanaLocalChain
let first: LyingNode
let second: LyingNode

beforeEach(async () => {
  chain = new SolanaLocalChain(new SolanaJournal(':memory:', 'SOL'), {finalized})
  chain.mine(1)
  first = await startNode(chain)
  second = await startNode(chain)
})
afterEach(() => {
  first.node.close()
  second.node.close()
  chain.journal.close()
})

const sourceOf = (...nodes: LyingNode[]) =>
  new SolanaSource(new SolanaNodes({endpoints: nodes.map(({node}) => ({url: node.httpUrl}))}), {
    commitment: 'confirmed',
    codes: {native: 'SOL', tokens: new Map()},
  })

const slotOf = (height: number) => chain.block(height).slot
const pay = (to = newAddress(), key = faucetKey) => chain.submit(payment({key, on: chain.head.hash}, to, sol))

/** Another answer to calls of a method of the first node; `params` chooses among them. */
function lie(method: string, to: (answer: never, params: never) => unknown): void {
  first.node.behave = async (call, pass) => {
    const answer = await pass()
    return call.method === method ? to(answer as never, call.params as never) : answer
  }
}

const heightsOf = (blocks: {height: number}[]) => blocks.map(({height}) => height)
const isIn = (slot: number) => (each: number) => each !== slot

// --- blocks ---

test('blocks that the node never lists are read from parent to parent', async () => {
  chain.mine(8)
  const hidden = [slotOf(3), slotOf(4), slotOf(7)]
  lie('getBlocks', (slots: number[]) => slots.filter(slot => !hidden.includes(slot)))
  expect(heightsOf(await sourceOf(first).blocksAbove(1, 20))).toEqual([2, 3, 4, 5, 6, 7, 8, 9])
})

test('a parent with another hash than its child names is none', async () => {
  chain.mine(8)
  const slot = slotOf(5)
  first.node.behave = async ({method, params}, pass) => {
    const answer = (await pass()) as {blockhash: string}
    if (method === 'getBlocks') return (answer as unknown as number[]).filter(isIn(slot))
    return method === 'getBlock' && params[0] === slot ? {...answer, blockhash: newAddress()} : answer
  }
  expect(heightsOf(await sourceOf(first).blocksAbove(1, 20))).toEqual([2, 3, 4])
  await expect(sourceOf(first).links([3, 7])).rejects.toBeInstanceOf(RetryableError)
})

test('blocks of two forks are no list', async () => {
  chain.mine(8)
  const old = new Map<unknown, unknown>()
  for (const height of [2, 3, 4, 5]) {
    const slot = slotOf(height)
    first.node.behave = async ({method}, pass) => {
      const answer = await pass()
      if (method === 'getBlock') old.set(slot, answer)
      return answer
    }
    await sourceOf(first).block(height)
  }
  chain.reorg(6, {})
  first.node.behave = async ({method, params: [slot]}, pass) => {
    if (method === 'getBlocks') return [...old.keys(), slotOf(6), slotOf(7)]
    return (method === 'getBlock' && old.get(slot)) || (await pass())
  }
  const blocks = await sourceOf(first).blocksAbove(1, 20)
  expect(heightsOf(blocks)).toEqual([2, 3, 4, 5])
  expect(await sourceOf(second).hashAt(5)).not.toBe(blocks[3]!.hash)
})

test('another block than the one that was found at a height is not given', async () => {
  chain.mine(8)
  lie('getBlock', (block: object, [, {transactionDetails}]: [number, {transactionDetails: string}]) =>
    transactionDetails === 'none' ? block : {...block, blockhash: newAddress()},
  )
  await expect(sourceOf(first).block(4)).rejects.toThrow('shows no block 4')
})

test('nothing is followed if the node counts the life of a transaction in another way', async () => {
  for (const more of [-1, 1]) {
    lie('getLatestBlockhash', (answer: {value: {lastValidBlockHeight: number}}) => ({
      ...answer,
      value: {...answer.value, lastValidBlockHeight: answer.value.lastValidBlockHeight + more},
    }))
    await expect(sourceOf(first).head()).rejects.toThrow('transactions would not expire when they are said to')
  }
})

test('what the node no longer has is told from what it does not show now', async () => {
  chain.mine(1100)
  const kept = 60
  lie('getFirstAvailableBlock', () => slotOf(kept))
  expect(await sourceOf(first).lacks(3)).toBe(`the node has no block below height ${kept} (slot ${slotOf(kept)})`)
  expect(await sourceOf(first).hashAt(3)).toBeUndefined()
  lie('getBlocks', (slots: number[]) => slots.filter(isIn(slotOf(900))))
  await expect(sourceOf(first).hashAt(900)).rejects.toBeInstanceOf(RetryableError)
})

// --- what expired ---

/** A payment by the faucet that no block holds, and whose end is final. */
function expired(): Expired {
  pay()
  chain.mine(1)
  const {height: lifetimeFrom, hash} = chain.head
  const {txid} = chain.parse(payment({key: faucetKey, on: hash}, newAddress(), sol))
  pay()
  chain.mine(151 + finalized)
  return {txid, raw: ofFaucet, source: faucet, lifetimeFrom, lifetimeEnd: lifetimeFrom + 151, notFollowed: null}
}

const prove = (of: Expired) => sourceOf(first, second).proveAbsent(of)

test('is not proven by a node of another network, which is refused at the start', async () => {
  const of = expired()
  second.node.behave = ({method}, pass) => (method === 'getGenesisHash' ? newAddress() : pass())
  await expect(sourceOf(first, second).refusal()).rejects.toMatchObject({reason: 'wrong_network'})
  expect(await prove(of)).toMatch('a node is on another network')
  second.node.behave = () => faults.status(500) // it is compared when its word counts
  await sourceOf(first, second).refusal()
  await expect(prove(of)).rejects.toThrow('status 500')
  second.node.behave = undefined
  expect(await prove(of)).toMatchObject({final: [{}, {}]})
})

test('is not proven by balances of before its end', async () => {
  const of = expired()
  first.node.behave = async ({method}, pass) => {
    first.endpoint.trouble = new Trouble(method === 'getMultipleAccounts' ? {lag: {share: 1, blocks: 20}} : {})
    return await pass()
  }
  await expect(prove(of)).rejects.toThrow('-32016')
})

test('is proven by transactions of one slot in whatever order they are told, and without those that came later', async () => {
  const of = expired()
  pay()
  pay()
  chain.mine(1 + finalized)
  lie('getSignaturesForAddress', (mentions: object[]) => [...mentions.slice(0, 2).reverse(), ...mentions.slice(2)])
  expect(await prove(of)).toMatchObject({account: {transactions: 4}})
  first.node.behave = async ({method}, pass) => {
    if (method === 'getSignaturesForAddress') {
      pay()
      chain.mine(1 + finalized)
    }
    return await pass()
  }
  expect(await prove(of)).toMatchObject({account: {transactions: 4}})
})

test('is not proven if only the statuses of a node, or only the history of its sender, know it', async () => {
  const of = expired()
  const key = newKey()
  pay(addressOfKey(key))
  chain.mine(1)
  const ofSomebodyElse = chain.submit(payment({key, on: chain.head.hash}, newAddress(), sol / 2n))
  const ofSender = pay()
  chain.mine(1 + finalized)
  expect(await prove({...of, txid: ofSomebodyElse})).toMatch('a node knows the transaction')
  for (const {node} of [first, second])
    node.behave = async ({method, params: [txids]}, pass) => {
      const answer = (await pass()) as {value: unknown[]}
      if (method !== 'getSignatureStatuses') return answer
      return {...answer, value: answer.value.map((status, i) => ((txids as string[])[i] === ofSender ? null : status))}
    }
  expect(await prove({...of, txid: ofSender})).toMatch('a node knows the transaction')
})

test('is not proven by a node without history', async () => {
  const of = expired()
  second.node.behave = async ({method, params: [txids]}, pass) => {
    const answer = (await pass()) as object
    return method === 'getSignatureStatuses' ? {...answer, value: (txids as string[]).map(() => null)} : answer
  }
  expect(await prove(of)).toMatch('so it keeps no history')
})
