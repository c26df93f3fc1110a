// Known results from mainnet and BIP-143, comparisons with bitcoinjs-lib, and forgeries.
import {Block, Transaction} from 'bitcoinjs-lib'
import fc from 'fast-check'
import {describe, expect, test} from 'vitest'
import {assertInBlock, isCoinbase, type MerkleProof, parseBlock, parseHeader, parseTransaction} from './block.ts'
import {sha256d} from './script.ts'

const bytes = (hex: string) => Uint8Array.from(Buffer.from(hex, 'hex'))
const shown = (hash: Uint8Array) => Buffer.from(hash).reverse().toString('hex')
const stored = (id: string) => Buffer.from(id, 'hex').reverse()

const genesis =
  '0100000000000000000000000000000000000000000000000000000000000000000000003ba3edfd7a7b12b27ac72c3e67768f617fc81bc3888a51323a9fb8aa4b1e5e4a29ab5f49ffff001d1dac2b7c' +
  '0101000000010000000000000000000000000000000000000000000000000000000000000000ffffffff4d04ffff001d0104455468652054696d65732030332f4a616e2f32303039204368616e63656c6c6f72206f6e206272696e6b206f66207365636f6e64206261696c6f757420666f722062616e6b73ffffffff0100f2052a01000000434104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5fac00000000'

/** Block 170 of mainnet, the first with a payment. */
const [coinbase170, payment170] = [
  'b1fea52486ce0c62bb442b530a3f0132b826c74e473d1f2c220bfa78111c5082',
  'f4184fc596403b9d638783cf57adfe4c75c605f6356fbc91338530e9831e9e16',
]
const root170 = '7dac2c5666815c17a3b36427de37bb9d2e2c5ccec3f8633eb91a4205cb4c10ff'

/** BIP-143, native P2WPKH: one input with a script, one with a witness. */
const segwit =
  '01000000000102fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f00000000494830450221008b9d1dc26ba6a9cb62127b02742fa9d754cd3bebf337f7a55d114c8e5cdd30be022040529b194ba3f9281a99f2b1c0a19c0489bc22ede944ccf4ecbab4cc618ef3ed01eeffffffef51e1b804cc89d182d279655c3aa89e815b1b309fe287d9b2b55d57b90ec68a0100000000ffffffff02202cb206000000001976a9148280b37df378db99f66f85c95a783a76ac7a6d5988ac9093510d000000001976a9143bde42dbee7e4dbe6a21b2d50ce2f0167faa815988ac000247304402203609e17b84f6a7d30c80bfa610b5b4542f32a8a0d5447a12fb1366d7f01cc44a0220573a954c4518331561406f90300e8f3358f51928d43c212a8caed02de67eebee0121025476c2e83188368da1ff3e292e7acafcdb3566bb0ad253f62fc70f07aeee635711000000'

test("mainnet's first block is parsed", () => {
  const {header, transactions} = parseBlock(bytes(genesis))
  expect(header).toEqual({
    hash: '000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f',
    parentHash: '00'.repeat(32),
    merkleRoot: '4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b',
    time: new Date('2009-01-03T18:15:05Z'),
    bits: 0x1d00ffff,
  })
  expect(transactions).toMatchObject([{txid: header.merkleRoot, outputs: [{value: 5_000_000_000n}], strippedSize: 204}])
  expect(isCoinbase(transactions[0]!)).toBe(true)
})

test('the id of a transaction with a witness covers everything but the witness', () => {
  const transaction = parseTransaction(bytes(segwit))
  expect(transaction.txid).toBe(Transaction.fromHex(segwit).getId())
  expect(
    transaction.inputs.map(({outpoint, scriptSig, witness}) => [outpoint, scriptSig.length, witness.length]),
  ).toEqual([
    ['9f96ade4b41d5433f4eda31e1738ec2b36f6e7d1420d94a6af99801a88f7f7ff:0', 73, 0],
    ['8ac60eb9575db5b2d987e29f301b5b819ea83a5c6579d282d189cc04b8e151ef:1', 0, 2],
  ])
  expect(transaction.outputs.map(({value}) => value)).toEqual([112_340_000n, 223_450_000n])
  expect(isCoinbase(transaction)).toBe(false)
})

test('only the first of a million witness items are stored, and the end of the witness is found', () => {
  const count = Buffer.from([0xfe, 0x40, 0x42, 0x0f, 0x00])
  const body = `01${'07'.repeat(36)}00ffffffff01${'00'.repeat(8)}0151`
  const long = Buffer.concat([
    Buffer.from(`020000000001${body}`, 'hex'),
    count,
    Buffer.alloc(1_000_000),
    Buffer.from('00000000', 'hex'),
  ])
  const {txid, inputs} = parseTransaction(long)
  expect(txid).toBe(parseTransaction(Buffer.from(`02000000${body}00000000`, 'hex')).txid)
  expect(inputs[0]!.witness.map(({length}) => length)).toEqual([0, 0, 0])
  expect(() => parseTransaction(long.subarray(0, -5))).toThrow('end too early')
})

test('a header whose hash does not reach its own target is refused', () => {
  const header = bytes(genesis).slice(0, 80)
  header[76]! ^= 1 // the nonce
  expect(() => parseHeader(header)).toThrow('lacks the proof of work')
  for (const bits of [0x1d80ffff, 0xff00ffff, 0x1c00ffff, 0]) {
    new DataView(header.buffer).setUint32(72, bits, true)
    expect(() => parseHeader(header)).toThrow('lacks the proof of work')
  }
  expect(() => parseHeader(header.slice(0, 79))).toThrow('80 bytes')
})

describe('a merkle proof of mainnet block 170', () => {
  const payment = {txid: payment170, strippedSize: 275, inputs: [], outputs: []}
  const proof = {siblings: [coinbase170], position: 1}

  test('leads to its root', () => {
    expect(() => assertInBlock(payment, proof, root170)).not.toThrow()
  })

  test.each<[string, Partial<MerkleProof>, RegExp]>([
    ['another position', {position: 0}, /does not lead/],
    ['a position out of its reach', {position: 3}, /too short/],
    ['a negative position', {position: -1}, /bounds/],
    ['half a position', {position: 0.5}, /bounds/],
    ['no sibling', {siblings: []}, /too short/],
    ['another sibling', {siblings: [payment170]}, /repeated position/],
    ['half a sibling', {siblings: [coinbase170.slice(0, 32)]}, /malformed/],
    ['no hash as a sibling', {siblings: ['x'.repeat(64)]}, /malformed/],
    ['siblings without end', {siblings: Array(1000).fill(coinbase170)}, /bounds/],
  ])('is refused with %s', (_, change, why) => {
    expect(() => assertInBlock(payment, {...proof, ...change}, root170)).toThrow(why)
  })

  test('is refused for another root, or another transaction', () => {
    expect(() => assertInBlock(payment, proof, coinbase170)).toThrow('does not lead')
    expect(() => assertInBlock({...payment, txid: root170}, proof, root170)).toThrow('does not lead')
  })
})

describe('a transaction of 64 bytes, which could also be an inner node,', () => {
  // version, one input without a script, one output with a script of 4 bytes, lock time
  const double = bytes(
    `02000000${'01'}${'ab'.repeat(32)}00000000${'00'}ffffffff${'01'}${'10'.repeat(8)}${'04'}${'51'.repeat(4)}00000000`,
  )
  const other = sha256d(double)

  test('cannot prove a false child', () => {
    const child = {txid: shown(double.subarray(32)), strippedSize: 200, inputs: [], outputs: []}
    const root = shown(sha256d(Buffer.concat([sha256d(double), other])))
    const proof = {siblings: [shown(double.subarray(0, 32)), shown(other)], position: 1}
    expect(() => assertInBlock(child, proof, root)).toThrow('goes through a transaction')
  })

  test('is not accepted as itself', () => {
    const transaction = parseTransaction(double)
    expect(transaction.strippedSize).toBe(64)
    const proof = {siblings: [shown(other)], position: 0}
    const root = shown(sha256d(Buffer.concat([other, other])))
    expect(() => assertInBlock(transaction, proof, root)).toThrow('could be an inner node')
  })

  test('is not accepted as a block without a coinbase', () => {
    const block = Buffer.concat([header(shown(other)), Uint8Array.of(1), double])
    expect(() => parseBlock(block)).toThrow('has no coinbase')
  })
})

/** A header with enough work for regtest. */
function header(merkleRoot: string): Buffer {
  const bytes = Buffer.alloc(80)
  stored(merkleRoot).copy(bytes, 36)
  bytes.writeUInt32LE(0x207fffff, 72)
  while (sha256d(bytes)[31]! > 0x7f) bytes.writeUInt32LE(bytes.readUInt32LE(76) + 1, 76)
  return bytes
}

const raw = (maxLength: number) => fc.uint8Array({maxLength})
const hash = fc.uint8Array({minLength: 32, maxLength: 32})
const transactions = fc.array(
  fc.record({
    version: fc.constantFrom(1, 2),
    inputs: fc.array(
      fc.record({hash, index: fc.nat(1000), script: raw(300), witness: fc.array(raw(80), {maxLength: 3})}),
      {minLength: 1, maxLength: 4},
    ),
    outputs: fc.array(fc.record({script: raw(300), value: fc.bigInt(0n, 21_000_000n * 100_000_000n)}), {
      minLength: 1,
      maxLength: 4,
    }),
  }),
  {maxLength: 20},
)

/** A block of these transactions after a coinbase, as bitcoinjs-lib makes it. */
function blockOf(contents: typeof transactions extends fc.Arbitrary<infer T> ? T : never) {
  const made = [
    {
      version: 2,
      inputs: [{hash: new Uint8Array(32), index: 0xffffffff, script: new Uint8Array(8), witness: []}],
      outputs: [{script: new Uint8Array(), value: 1n}],
    },
    ...contents,
  ].map(({version, inputs, outputs}) => {
    const transaction = new Transaction()
    transaction.version = version
    for (const {hash, index, script, witness} of inputs) {
      const at = transaction.addInput(Uint8Array.from(hash), index, 0xfffffffd, Uint8Array.from(script))
      transaction.setWitness(at, witness)
    }
    for (const {script, value} of outputs) transaction.addOutput(script, value)
    return transaction
  })
  const root = shown(Block.calculateMerkleRoot(made))
  return {made, root, raw: Buffer.concat([header(root), Uint8Array.of(made.length), ...made.map(it => it.toBuffer())])}
}

/** The siblings of one position, computed in the simplest way. */
function proofOf(txids: string[], position: number): MerkleProof {
  const siblings: string[] = []
  let level: Buffer[] = txids.map(stored)
  for (let at = position; level.length > 1; at >>= 1) {
    if (level.length % 2) level.push(level.at(-1)!)
    siblings.push(shown(level[at ^ 1]!))
    level = level.flatMap((node, i) => (i % 2 ? [] : [sha256d(Buffer.concat([node, level[i + 1]!]))]))
  }
  return {siblings, position}
}

test('blocks are parsed as bitcoinjs-lib writes them, and the proof of a transaction is valid for its own position only', () => {
  fc.assert(
    fc.property(transactions, fc.nat(), (contents, pick) => {
      const {made, root, raw} = blockOf(contents)
      const block = parseBlock(raw)
      expect(block.header.merkleRoot).toBe(root)
      expect(block.transactions.map(({txid}) => txid)).toEqual(made.map(it => it.getId()))
      expect(block.transactions.map(({outputs}) => outputs.map(({script, value}) => [shown(script), value]))).toEqual(
        made.map(({outs}) => outs.map(({script, value}) => [shown(script), value])),
      )
      expect(block.transactions.map(({inputs}) => inputs.map(({witness}) => witness.map(shown)))).toEqual(
        made.map(({ins}) => ins.map(({witness}) => witness.map(shown))),
      )
      const txids = block.transactions.map(({txid}) => txid)
      fc.pre(new Set(txids).size === txids.length) // for adjacent duplicates, both positions are right
      const position = pick % txids.length
      const transaction = block.transactions[position]!
      fc.pre(transaction.strippedSize !== 64) // it could be an inner node, so it is refused; another test covers that
      const proof = proofOf(txids, position)
      assertInBlock(transaction, proof, root)
      for (let other = 0; other < 2 ** proof.siblings.length; other++)
        if (other !== position) expect(() => assertInBlock(transaction, {...proof, position: other}, root)).toThrow()
    }),
  )
})

test('a block with any part changed, left out or repeated is refused', () => {
  fc.assert(
    fc.property(transactions, fc.nat(), fc.integer({min: 1, max: 255}), (contents, at, change) => {
      const plain = contents.map(it => ({...it, inputs: it.inputs.map(input => ({...input, witness: []}))}))
      const {made, root, raw} = blockOf(plain) // the header does not commit to witnesses
      const bent = Uint8Array.from(raw)
      bent[80 + (at % (raw.length - 80))]! ^= change
      expect(() => parseBlock(bent)).toThrow()
      expect(() => parseBlock(raw.subarray(0, -1))).toThrow('end too early')
      expect(() => parseBlock(Buffer.concat([raw, Uint8Array.of(0)]))).toThrow('1 bytes too many')
      if (made.length < 2 || made.length % 2 === 0) return
      const repeated = [...made, made.at(-1)!].map(it => it.toBuffer()) // has the same merkle root (CVE-2012-2459)
      const block = Buffer.concat([header(root), Uint8Array.of(repeated.length), ...repeated])
      expect(() => parseBlock(block)).toThrow('repeats transactions')
    }),
  )
})
