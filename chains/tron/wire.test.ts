// Addresses, transactions and blocks of Tron: known answers from published blocks, and the same bytes as tronweb.
import {randomBytes} from 'node:crypto'
import fc from 'fast-check'
import {pointFromScalar, recover} from 'tiny-secp256k1'
import {TronWeb, utils} from 'tronweb'
import {expect, test} from 'vitest'
import {chains, type TronChain} from '../registry.ts'
import {addressOf, bytesOf, keyBytes, sha256} from './address.ts'
import {blockId, emptyRoot, type Header, txTrieRoot} from './block.ts'
import {displayForm} from './forms.ts'
import {encode, MalformedError, Message} from './protobuf.ts'
import {
  callData,
  contractTypes,
  encodeTransaction,
  type Frame,
  parseRawData,
  parseTransaction,
  reference,
  transactionOf,
  transferData,
} from './transaction.ts'

const bytes = (hex: string) => Buffer.from(hex, 'hex')
const hex = (data: Uint8Array) => Buffer.from(data).toString('hex')

function header(height: number, known: Partial<Header>): Header {
  const rest = {witnessId: 0n, version: 0n, accountStateRoot: '', parentHash: '', time: 0, witness: ''}
  return {...rest, height, txTrieRoot: emptyRoot, ...known}
}

// From documentation that shows responses of nodes of the main network, of Shasta and of Nile.
const headers: [string, Header][] = [
  [
    '000000000203c375c7521ef953106e9a112e1902664a91becc5f40371a7397d7',
    header(33_801_077, {
      txTrieRoot: '30fe6502e11e110fa389d5c17e1cf53fa8df93f26297d9f27cd8c07d3558d722',
      witness: '41e71c365c9dbf284ca8c1eed2d7877638941b9011',
      parentHash: '000000000203c3741f9a08f594934bd26df95cc6c49b475d118e3a87aed5a4a4',
      version: 27n,
      time: 1_684_509_309_000,
    }),
  ],
  [
    '000000000203c376d3d45ca88309982517d69ff0ec4d9a9f9f25536cebcdd76b',
    header(33_801_078, {
      witness: '41e61626ef01662b320a8ba38372e9db9cca940a3b',
      parentHash: '000000000203c375c7521ef953106e9a112e1902664a91becc5f40371a7397d7',
      version: 27n,
      time: 1_684_509_312_000,
    }),
  ],
  [
    '00000000051014e80dbf5923643f955ca7b09253e84c13b59f19e347fb9ea95e',
    header(84_940_008, {
      txTrieRoot: '5360b488069bf1f3643c8d0504052aea2e5f7a71a51901cf69ebe57e950336fa',
      witness: '4114f2c09d3de3fe82a71960da65d4935a30b24e1f',
      parentHash: '00000000051014e793a715af1fa52f8e4dfd1bed8aea07f41e11c9e831ef5022',
      version: 36n,
      time: 1_785_490_773_000,
    }),
  ],
  [
    '00000000000d429759175a43cb3e112d0761ecabf06ef0c253affe1420977651',
    header(869_015, {
      txTrieRoot: '3a51b325df4783649723a8c5d6f09bdfddd2c186a3586f242989c464ae534490',
      witness: '41e40de6895c142ade8b86194063bcdbaa6c9360b6',
      parentHash: '00000000000d429679bea6d12e9ea903189094d68d7ccd106304d518c08968ef',
      time: 1_532_499_960_000,
    }),
  ],
]

test.each(headers)('the id of block %s is computed from its header', (id, header) => {
  expect(blockId(header)).toBe(id)
  for (const other of [{time: header.time + 1}, {version: 1n}, {accountStateRoot: '00'}, {witnessId: 1n}])
    expect(blockId({...header, ...other})).not.toBe(id)
})

const call = {
  txid: '31370141e3345421bdb92eff72f0d69aba8d04e636317ed52745d3f97e9faabb',
  raw: '0a02c36222084ddf60f936a910d940f0add4a483315a8e01081f1289010a31747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e54726967676572536d617274436f6e747261637412540a1541fcf7ab2a2fb29362babd41647a22b223f7fbedec121541c3c5115bd3f5cfe5559c634eeb250f339ae3e29c222437383d0e00000000000000000000000000000000000000000000000000000188349354c970b8e0d0a48331900180a3c347',
  signature:
    '95874b4774ba56125dfd7bf2a99a0652d4abda98c6977e3f417852b7ea6f2b81ff2f260df473d186be9586b6bbeb74b5382d7f058593fd72fb60da5d0f77f77100',
}
const payment = {
  txid: '979e0823f455f3b67d65b351052f0265233f422792d31d5dbeb7c24737dd5556',
  raw: '0a02f49e2208bf6a4ff33cc1c16040a894b3ad9e2f5a68080112640a2d747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e5472616e73666572436f6e747261637412330a1541c33eeefda1059afba41d86759e281bcb851edfc812154158c85b7b6a5118beb3b23c14fcb2f3551a81d79a1880e1eb1770b0dbafad9e2f',
  signature:
    '973e1cef0b8b2eb64e2ebe8a4ce69d9cce3c201a6b3885e853528f81383d19a67d35edd8e7027dba8e2f3211387fdef597e3f062a02a4d8aef990aaf2c29714d00',
}
const asset = {
  txid: '357da69180f69b651a4a5a41c628e7969391a81823fb46c57a39bd617dd504f5',
  raw: '0a0214d42208487b929e2595a20c40f8cdafbcfb335a74080212700a32747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e5472616e736665724173736574436f6e7472616374123a0a07313030353132351215418bcb819886ee35957958e6207dc2b1fbc36b02921a1541baa5d183152181460478ba83ad37926600e2190e20d00f70da91acbcfb33',
  signature:
    '354bb9db00de8d27b2bb45f6fa5df2ebe39eba76316c430eebe56d5206ad89eb2e57b4c265bcf0335df6b9ac0c06fde111b78dfb23da115edb5a833ed794d43300',
}

test.each([
  ['a payment', payment, contractTypes.transfer, '41c33eeefda1059afba41d86759e281bcb851edfc8'],
  ['a call', call, contractTypes.trigger, '41fcf7ab2a2fb29362babd41647a22b223f7fbedec'],
  ['a payment of a token', asset, contractTypes.transferAsset, '418bcb819886ee35957958e6207dc2b1fbc36b0292'],
])('%s that is on the chain has its id and its owner, who signed it', (_, {txid, raw, signature}, type, owner) => {
  const found = transactionOf(bytes(raw), [bytes(signature)])
  expect(found.txid).toBe(txid)
  expect(parseTransaction(encodeTransaction(found))).toEqual(found)
  const {contract} = parseRawData(found.rawData)
  expect(contract).toMatchObject({type, permission: 0, owner: addressOf(bytes(owner))})
  const [r, v] = [bytes(signature).subarray(0, 64), bytes(signature)[64] as 0 | 1]
  expect(hex(keyBytes(recover(bytes(txid), r, v, true)!))).toBe(owner)
})

test('the fields of raw data are read', () => {
  expect(parseRawData(bytes(payment.raw))).toMatchObject({
    refBytes: bytes('f49e'),
    refHash: bytes('bf6a4ff33cc1c160'),
    expiration: 1_623_055_977_000,
    timestamp: 1_623_055_920_560,
    feeLimit: 0n,
    memo: new Uint8Array(),
  })
  expect(parseRawData(bytes(payment.raw)).contract.message.integer(3)).toBe(50_000_000n)
  expect(parseRawData(bytes(call.raw)).feeLimit).toBe(150_000_000n)
  expect(reference(30_864_542, `${'0'.repeat(16)}bf6a4ff33cc1c160${'0'.repeat(32)}`)).toEqual({
    refBytes: bytes('f49e'),
    refHash: bytes('bf6a4ff33cc1c160'),
  })
})

// Block 33801077, whose only transaction this is. The header of a node commits to exactly these bytes.
test('the root of a published block covers its whole transaction, with signature and result', () => {
  const [, {txTrieRoot: root}] = headers[0]!
  const signed = [bytes(call.signature)]
  expect(txTrieRoot([transactionOf(bytes(call.raw), signed, 'SUCCESS')])).toBe(root)
  expect(txTrieRoot([transactionOf(bytes(call.raw), signed, 'REVERT')])).not.toBe(root)
  expect(txTrieRoot([transactionOf(bytes(call.raw), signed)])).not.toBe(root)
  expect(txTrieRoot([transactionOf(bytes(call.raw), [], 'SUCCESS')])).not.toBe(root)
})

// As MerkleTree.java of java-tron builds it.
test('the root of several transactions pairs them from the left; one that is left over goes up as it is', () => {
  const all = [payment, call, asset, payment, call].map(({raw, signature}) =>
    transactionOf(bytes(raw), [bytes(signature)], 'SUCCESS'),
  )
  const [a, b, c, d, e] = all.map(one => sha256(encodeTransaction(one)))
  const pair = (left: Uint8Array, right: Uint8Array) => sha256(Buffer.concat([left, right]))
  expect(txTrieRoot([])).toBe(emptyRoot)
  expect(txTrieRoot(all.slice(0, 2))).toBe(hex(pair(a!, b!)))
  expect(txTrieRoot(all.slice(0, 3))).toBe(hex(pair(pair(a!, b!), c!)))
  expect(txTrieRoot(all)).toBe(hex(pair(pair(pair(a!, b!), pair(c!, d!)), e!)))
})

// tronweb
// ---------------------------------------------------------------------------------------------------------------------

const anyBytes = (length: number) => fc.uint8Array({minLength: length, maxLength: length})
const anyAddress = anyBytes(20).map(tail => Uint8Array.of(0x41, ...tail))

test('an address in the hex of nodes is shown as people write it', () => {
  const [chain] = chains.filter(({family}) => family === 'tron')
  const shown = (address: string) => displayForm(chain as TronChain, address)
  const text = 'TLsV52sRDL79HXGGm9yzwKibb6BeruhUzy'
  const inHex = hex(bytesOf(text))
  for (const address of [text, inHex, `0x${inHex.toUpperCase()}`, inHex.toUpperCase()])
    expect(shown(address)).toBe(text)
  for (const address of [inHex.slice(2), `42${inHex.slice(2)}`, `${inHex}00`])
    expect(() => shown(address)).toThrow(expect.objectContaining({code: 'invalid_address'}))
})

test('addresses are written and read as by tronweb, and a mistyped one is refused', () => {
  const check = fc.property(anyAddress, fc.nat(32), fc.nat(57), (address, place, letter) => {
    const text = TronWeb.address.fromHex(hex(address))
    expect(addressOf(address)).toBe(text)
    expect(hex(bytesOf(text))).toBe(hex(address))
    const other = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'[letter]!
    const typed = text.slice(0, place + 1) + other + text.slice(place + 2)
    if (typed !== text) expect(() => bytesOf(typed)).toThrow('mistyped')
  })
  fc.assert(check, {numRuns: 300})
})

test.each([
  '',
  'T',
  '41fcf7ab2a2fb29362babd41647a22b223f7fbedec',
  '0xfcf7ab2a2fb29362babd41647a22b223f7fbedec',
  'TWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaL60',
  'tWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaL6',
  'TWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaLO',
  '1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2',
])('%j is no address', text => {
  expect(() => bytesOf(text)).toThrow('must be T and 33')
})

test('only 21 bytes that begin with 41 are an address', () => {
  expect(() => addressOf(randomBytes(20))).toThrow(RangeError)
  expect(() => addressOf(Uint8Array.of(0x42, ...randomBytes(20)))).toThrow(RangeError)
})

test('a key has the address that tronweb says', () => {
  for (let i = 1; i <= 30; i++) {
    const key = sha256(Buffer.from([i]))
    const expected = TronWeb.address.fromPrivateKey(hex(key))
    for (const isCompressed of [true, false])
      expect(addressOf(keyBytes(pointFromScalar(key, isCompressed)!))).toBe(expected)
  }
})

const anyFrame = fc.record({
  refBytes: anyBytes(2),
  refHash: anyBytes(8),
  expiration: fc.integer({min: 1, max: 2 ** 50}),
  timestamp: fc.integer({min: 1, max: 2 ** 50}),
})
const offline = new TronWeb({fullHost: 'http://127.0.0.1:1'})

function onWire({refBytes, refHash, ...times}: Frame): object {
  return {ref_block_bytes: hex(refBytes), ref_block_hash: hex(refHash), ...times}
}

test('payments have the bytes, and the id, of those that tronweb builds', async () => {
  const amounts = fc.integer({min: 1, max: Number.MAX_SAFE_INTEGER})
  const check = fc.asyncProperty(anyFrame, anyAddress, anyAddress, amounts, async (frame, from, to, amount) => {
    fc.pre(hex(from) !== hex(to))
    const blockHeader = onWire(frame) as never
    const built = await offline.transactionBuilder.sendTrx(addressOf(to), amount, addressOf(from), {blockHeader})
    const raw = transferData(frame, {from: addressOf(from), to: addressOf(to), amount: BigInt(amount)})
    expect(hex(raw)).toBe(built.raw_data_hex)
    expect(transactionOf(raw, []).txid).toBe(built.txID)
  })
  await fc.assert(check, {numRuns: 200})
})

test('calls have the bytes of those that tronweb encodes, signatures included', () => {
  const check = fc.property(
    anyFrame,
    anyAddress,
    anyAddress,
    anyBytes(68),
    anyBytes(65),
    (frame, from, to, data, sig) => {
      const parameter = {
        value: {owner_address: hex(from), contract_address: hex(to), call_value: 7, data: hex(data)},
        type_url: 'type.googleapis.com/protocol.TriggerSmartContract',
      }
      const contract = [{parameter, type: 'TriggerSmartContract'}]
      const json = {visible: false, txID: '', raw_data: {...onWire(frame), fee_limit: 5, contract}, raw_data_hex: ''}
      const built = utils.transaction.txJsonToPb(json as never)
      built.addSignature(sig)
      const call = {from: addressOf(from), contract: addressOf(to), value: 7n, data}
      const raw = callData({...frame, feeLimit: 5n}, call)
      expect(hex(encodeTransaction(transactionOf(raw, [sig])))).toBe(hex(built.serializeBinary()))
    },
  )
  fc.assert(check, {numRuns: 100})
})

// Protobuf
// ---------------------------------------------------------------------------------------------------------------------

test('bytes that are no message are refused', () => {
  const whole = encodeTransaction(transactionOf(bytes(payment.raw), [bytes(payment.signature)]))
  for (const end of [1, 2, 50, whole.length - 1])
    expect(() => parseTransaction(whole.subarray(0, end))).toThrow(MalformedError)
  expect(() => new Message(bytes('0d00000000'))).toThrow('wire type 5')
  expect(() => new Message(bytes(`08${'ff'.repeat(10)}01`))).toThrow('more than ten bytes')
  expect(() => new Message(encode([[1, 5n]])).bytes(1)).toThrow('has no bytes')
  expect(() => new Message(encode([[1, bytes('00')]])).integer(1)).toThrow('is no integer')
})

test('of a field that is there twice the last one counts', () => {
  const twice = new Message(
    encode([
      [1, [1n, 2n]],
      [2, [bytes('01'), bytes('02')]],
    ]),
  )
  expect([twice.integer(1), hex(twice.bytes(2))]).toEqual([2n, '02'])
})

test('negative integers, and repeated defaults, survive', () => {
  expect(new Message(encode([[1, -5n]])).integer(1)).toBe(-5n)
  expect(new Message(encode([[2, [bytes(''), bytes('01')]]])).all(2)).toHaveLength(2)
})

test('a transaction has one contract, and its owner is where its type has it', () => {
  expect(() => parseRawData(encode([[14, 1n]]))).toThrow('with 0 contracts')
  const contract = (type: number, fields: [number, Uint8Array][]) =>
    parseRawData(
      encode([
        [
          11,
          encode([
            [1, BigInt(type)],
            [2, encode([[2, encode(fields)]])],
          ]),
        ],
      ]),
    ).contract.owner
  const owner = bytesOf('TWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaL6')
  expect(contract(46, [[1, owner]])).toBe('TWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaL6')
  expect(contract(contractTypes.accountUpdate, [[2, owner]])).toBe('TWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaL6')
  expect(contract(contractTypes.setAccountId, [[2, owner]])).toBe('TWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaL6')
  expect(contract(contractTypes.shieldedTransfer, [[1, owner]])).toBeUndefined()
  expect(contract(46, [[1, owner.subarray(1)]])).toBeUndefined()
})
