// What a Solana block says about addresses: balance differences of successful transactions.
import {expect, test} from 'vitest'
import type {Block, Transaction} from '../../chains/solana/responses.ts'
import {associatedAccount} from '../../chains/solana/tokens.ts'
import {readBlock} from './read-block.ts'

const plain: Transaction = {
  txid: 'tx',
  keys: ['payer', 'a', 'b', 'system'],
  signers: ['payer'],
  hasFailed: false,
  fee: 5000n,
  before: [1_000_000, 0, 7, 1],
  after: [995_000, 0, 7, 1],
  tokensBefore: [],
  tokensAfter: [],
}

const read = (...changes: Partial<Transaction>[]) => {
  const transactions = changes.map(change => ({...plain, ...change}))
  const block: Block = {
    slot: 109,
    height: 100,
    hash: 'h',
    parentSlot: 107,
    parentHash: 'p',
    time: 1_700_000_000,
    transactions,
  }
  return readBlock(block, {native: 'SOL', tokens: new Map([['usd', 'USD']])})
}

test('a block has its height, not its slot', () => {
  const block = {height: 100, hash: 'h', parentHash: 'p', time: new Date(1_700_000_000_000), candidates: [], spends: []}
  expect(read()).toEqual({...block, sent: []})
})

test('each account whose balance rose received the difference, from the account that lost most', () => {
  const {candidates} = read({after: [900_000, 60_000, 35_007, 1]})
  const common = {txid: 'tx', kind: 'native', token: 'SOL', sender: 'payer'}
  expect(candidates).toEqual([
    {...common, outputIndex: 1, amount: 60_000n, recipientKey: 'a'},
    {...common, outputIndex: 2, amount: 35_000n, recipientKey: 'b'},
  ])
})

test('differences are exact above 2^53, and where one balance is above it', () => {
  const large = 9_007_199_254_740_993n
  const {candidates} = read({before: [large + 5000n, 5, 0, 1], after: [5, large, 0, 1]})
  expect(candidates).toMatchObject([{amount: large - 5n, recipientKey: 'a', sender: 'payer'}])
})

test('an account that a program closed is the sender, though another one signed and paid the fee', () => {
  const {candidates} = read({before: [1_000_000, 0, 2_039_280, 1], after: [995_000, 2_039_280, 0, 1]})
  expect(candidates).toMatchObject([{recipientKey: 'a', amount: 2_039_280n, sender: 'b'}])
})

test('where two lost as much, the account that pays the fee is the sender; the fee itself is no payment', () => {
  const {candidates} = read({
    keys: ['payer', 'x', 'y', 'z'],
    before: [1_000_000, 10, 10, 0],
    after: [995_000, 0, 0, 20],
  })
  expect(candidates).toMatchObject([{recipientKey: 'z', sender: 'payer'}])
})

test('the fee does not make an account the sender, though it is more than what another one lost', () => {
  const {candidates} = read({before: [1_000_000, 4000, 0, 1], after: [995_000, 0, 4000, 1]})
  expect(candidates).toMatchObject([{recipientKey: 'b', sender: 'a'}])
})

test('an account that pays the fee of what it receives received all of it', () => {
  const {candidates} = read({signers: ['payer', 'a'], before: [1_000_000, 700_000, 0, 1], after: [1_695_000, 0, 0, 1]})
  expect(candidates).toEqual([
    {txid: 'tx', outputIndex: 0, kind: 'native', token: 'SOL', amount: 700_000n, sender: 'a', recipientKey: 'payer'},
  ])
})

test('a failed transaction pays nobody; it used the authority of its signers and cost its fee', () => {
  const {candidates, sent} = read({
    hasFailed: true,
    after: [900_000, 95_000, 7, 1],
    tokensAfter: [{index: 1, mint: 'm', owner: 'o', amount: 5n}],
  })
  expect(candidates).toEqual([])
  expect(sent).toEqual([{txid: 'tx', senderKey: 'payer', executed: false, fee: 5000n}])
})

test('every signer is a sender, and one of them pays the fee', () => {
  const {sent} = read({signers: ['payer', 'a']})
  expect(sent).toEqual([
    {txid: 'tx', senderKey: 'payer', executed: true, fee: 5000n},
    {txid: 'tx', senderKey: 'a', executed: true, fee: 0n, position: 1},
  ])
})

test('tokens belong to the owner of their account, at positions of their own', () => {
  const {candidates} = read({
    tokensBefore: [
      {index: 1, mint: 'usd', owner: 'alice', amount: 30n},
      {index: 2, mint: 'usd', owner: 'bob', amount: 1n},
    ],
    tokensAfter: [
      {index: 1, mint: 'usd', owner: 'alice', amount: 20n},
      {index: 2, mint: 'usd', owner: 'bob', amount: 11n},
      {index: 3, mint: 'eur', owner: 'carol', amount: 4n},
    ],
  })
  expect(candidates).toMatchObject([
    {txid: 'tx', kind: 'token', token: 'USD', outputIndex: 1002, amount: 10n, sender: 'alice', recipientKey: 'bob'},
    {txid: 'tx', kind: 'token', token: 'eur', outputIndex: 1003, amount: 4n, sender: 'payer', recipientKey: 'carol'},
  ])
})

test('an account that gets another owner brings all that it holds, from the one before', () => {
  const {candidates} = read({
    tokensBefore: [{index: 1, mint: 'usd', owner: 'alice', amount: 30n}],
    tokensAfter: [{index: 1, mint: 'usd', owner: 'bob', amount: 25n}],
  })
  expect(candidates).toMatchObject([{outputIndex: 1001, amount: 25n, sender: 'alice', recipientKey: 'bob'}])
})

test('the treasury spends from associated accounts: what is on another one is out of its reach', () => {
  const [mint, owner] = ['4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU', 'J2xccRtuG43drESLYznHhLhQkLTdfepcKYbiQ9BsJVaf']
  const keys = ['token', 'token-2022'].map(program => associatedAccount(owner, mint, program as 'token'))
  const {candidates} = read({
    keys: [...keys, mint],
    before: [0, 0, 0],
    after: [0, 0, 0],
    tokensBefore: [],
    tokensAfter: [0, 1, 2].map(index => ({index, mint, owner, amount: 1n})),
  })
  expect(candidates.map(({isOutOfReach}) => isOutOfReach!())).toEqual([false, false, true])
})

test('accounts of one owner are deposits of their own; one that is closed, or keeps what it has, brings nothing', () => {
  const {candidates} = read({
    tokensBefore: [
      {index: 1, mint: 'usd', owner: 'alice', amount: 30n},
      {index: 3, mint: 'usd', owner: 'bob', amount: 5n},
    ],
    tokensAfter: [
      {index: 2, mint: 'usd', owner: 'bob', amount: 10n},
      {index: 0, mint: 'usd', owner: 'bob', amount: 20n},
      {index: 3, mint: 'usd', owner: 'bob', amount: 5n},
    ],
  })
  expect(candidates.map(({outputIndex, amount}) => [outputIndex, amount])).toEqual([
    [1002, 10n],
    [1000, 20n],
  ])
})

test('the rent of a token account is no payment: it has the address of no wallet', () => {
  const {candidates} = read({
    ...{before: [5_000_000, 0, 7, 1], after: [2_955_720, 2_039_280, 7, 1]},
    tokensAfter: [{index: 1, mint: 'usd', owner: 'o', amount: 1n}],
  })
  expect(candidates).toMatchObject([{kind: 'token', recipientKey: 'o', amount: 1n}])
})

test('what accounts of tokens cost that a transaction makes is part of its fee; of wrapped SOL it is their amount', () => {
  const made = (mint: string, hasFailed = false) =>
    read({
      ...{hasFailed, before: [5_000_000, 0, 7, 1], after: [2_955_720, 2_039_280, 7, 1]},
      tokensAfter: [{index: 1, mint, owner: 'o', amount: 1n}],
    }).sent.map(({fee}) => fee)
  expect(made('usd')).toEqual([2_044_280n])
  expect(made('unknown')).toEqual([2_044_280n])
  expect(made('So11111111111111111111111111111111111111112')).toEqual([5000n])
  expect(made('usd', true)).toEqual([5000n])
})

test('a node that does not say what a transaction did to tokens, or who got some, is not believed', () => {
  const nothing = {tokensBefore: undefined, tokensAfter: undefined}
  expect(read(nothing).candidates).toEqual([]) // no program of tokens took part
  const keys = ['payer', 'a', 'b', 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA']
  expect(() => read({...nothing, keys})).toThrow('does not say what transaction tx did to tokens')
  expect(read({...nothing, keys, hasFailed: true}).candidates).toEqual([])
  const tokensAfter = [{index: 1, mint: 'eur', owner: undefined, amount: 4n}]
  expect(() => read({tokensAfter})).toThrow('does not say who got the token eur')
  expect(read({tokensBefore: tokensAfter, tokensAfter}).candidates).toEqual([])
})
