// Roots of lists, compared with known ones. verify-block.test.ts checks that whole blocks have the roots in their
// headers.
import {expect, test} from 'vitest'
import {Anvil} from '../../test/support/evm/anvil.ts'
import {orderedTrieRoot, rlp} from './trie.ts'

test.each([
  // The examples of the Ethereum wiki's page on RLP.
  [rlp.bytes('646f67'), '83646f67'],
  [rlp.list(rlp.bytes('636174'), rlp.bytes('646f67')), 'c88363617483646f67'],
  [rlp.bytes(''), '80'],
  [rlp.list(), 'c0'],
  [rlp.number(0), '80'],
  [rlp.bytes('00'), '00'],
  [rlp.number(15n), '0f'],
  [rlp.number(128), '8180'],
  [rlp.number(1024), '820400'],
  [rlp.bytes('61'.repeat(56)), `b838${'61'.repeat(56)}`],
  [rlp.list(...Array.from({length: 300}, () => '01')), `f9012c${'01'.repeat(300)}`],
])('%.20s is RLP', (encoded, expected) => {
  expect(encoded).toBe(expected)
})

test('the root of nothing is that of every empty block', () => {
  expect(orderedTrieRoot([])).toBe('56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421')
})

// Indexes from 128 on take two bytes, and lie below another branch; an item shorter than a hash is no node of its own.
test.each([1, 2, 16, 17, 127, 128, 129, 300])(
  'the root of %i transactions equals that of a block of anvil',
  async count => {
    const anvil = await Anvil.start()
    try {
      const gas = 21_000
      const sent = await Promise.all(
        Array.from({length: count}, (_, nonce) =>
          anvil.send({by: 2, nonce, to: `0x${'77'.repeat(20)}`, gas, value: BigInt(nonce)}),
        ),
      )
      const {transactions} = await anvil.mine()
      expect(transactions).toHaveLength(sent.length)
      const raw = await Promise.all(transactions.map(txid => anvil.raw(txid)))
      const {transactionsRoot} = await anvil.call<{transactionsRoot: string}>('eth_getBlockByNumber', ['latest', false])
      expect(`0x${orderedTrieRoot(raw.map(transaction => transaction.slice(2)))}`).toBe(transactionsRoot)
    } finally {
      await anvil.stop()
    }
  },
)
