// Custody's signatures for Tron: the bytes that tronweb makes of the same payment and key, and a local chain takes
// them.
import {TronWeb, utils} from 'tronweb'
import {beforeAll, expect, test} from 'vitest'
import {settingsFrom} from '../../chains/settings.ts'
import {parseRawData, parseTransaction, rawOf} from '../../chains/tron/transaction.ts'
import {TronLocalChain} from '../../devnet/tron/chain.ts'
import {newAddress, payment} from '../../devnet/tron/client.ts'
import {faucetKey} from '../../devnet/tron/constants.ts'
import {TronJournal} from '../../devnet/tron/journal.ts'
import {families} from '../families.ts'
import type {Plan} from '../judge/plan.ts'
import {type KeyStore, localKeys} from '../keys/key-store.ts'
import type {TronTerms} from './plan.ts'
import {sign} from './sign.ts'

const phrase = 'test test test test test test test test test test test junk'
const source = 'TPjjvMwjPoDC32V2dGDYTkLH4E5LAtBZ6C'
const path = {family: 'tron', purpose: 'deposit', index: 1} as const
const on = {height: 0x0123_4567, hash: '0000000001234567f0e1d2c3b4a5968778695a4b3c2d1e0fffeeddccbbaa9988'}
let keys: KeyStore
beforeAll(async () => {
  keys = await localKeys(phrase, families)
})

const planOf = (more: Partial<Plan & TronTerms>) => {
  const lifetime = {from: on.height, end: 1_790_000_600_000, clock_ms: 1_790_000_630_000}
  const given = {
    paths: {source: path, feePayer: path},
    source,
    destination: newAddress(),
    amount: 1n,
    on,
    lifetime,
    maxFee: 5n,
    timestamp: 1,
    call: undefined,
    staking: undefined,
  }
  return {...given, ...more} as Plan & TronTerms
}

test('a payment has the bytes, the id and the signature that tronweb makes', async () => {
  const key = TronWeb.fromMnemonic(phrase, "m/44'/195'/0'/0/1")
  const offline = new TronWeb({fullHost: 'http://127.0.0.1:1'})
  for (const amount of [1n, 1_500_000n, 2n ** 53n - 1n]) {
    const plan = planOf({amount, timestamp: 1_790_000_000_123})
    const {txid, raw, details} = await sign(keys, plan)
    const blockHeader = {
      ref_block_bytes: '4567',
      ref_block_hash: 'f0e1d2c3b4a59687',
      expiration: plan.lifetime.end,
      timestamp: plan.timestamp,
    }
    const built = await offline.transactionBuilder.sendTrx(plan.destination, Number(amount), source, {
      blockHeader,
    } as never)
    const signed = await offline.trx.sign(built, key.privateKey.slice(2))
    const whole = utils.transaction.txJsonToPb(built)
    whole.addSignature(Buffer.from(signed.signature[0]!.replace(/^0x/, ''), 'hex'))
    expect([txid, raw]).toEqual([signed.txID, Buffer.from(whole.serializeBinary()).toString('hex')])
    expect(details).toEqual({lifetime: plan.lifetime, timestamp: plan.timestamp, max_fee: '5'})
  }
})

test('a transfer of a token has the bytes, the id and the signature that tronweb makes', async () => {
  const key = TronWeb.fromMnemonic(phrase, "m/44'/195'/0'/0/1")
  const offline = new TronWeb({fullHost: 'http://127.0.0.1:1'})
  const contract = 'TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf'
  for (const amount of [1n, 5_000_000n, 2n ** 70n]) {
    const plan = planOf({amount, timestamp: 1_790_000_000_123, call: {contract, feeLimit: 16_250_000n}})
    const {txid, raw} = await sign(keys, plan)
    const blockHeader = {
      ref_block_bytes: '4567',
      ref_block_hash: 'f0e1d2c3b4a59687',
      expiration: plan.lifetime.end,
      timestamp: plan.timestamp,
    }
    const {transaction} = await offline.transactionBuilder.triggerSmartContract(
      contract,
      'transfer(address,uint256)',
      {feeLimit: 16_250_000, txLocal: true, blockHeader} as never,
      [
        {type: 'address', value: plan.destination},
        {type: 'uint256', value: String(amount)},
      ],
      source,
    )
    const signed = await offline.trx.sign(transaction, key.privateKey.slice(2))
    const whole = utils.transaction.txJsonToPb(transaction)
    whole.addSignature(Buffer.from(signed.signature[0]!.replace(/^0x/, ''), 'hex'))
    expect([txid, raw]).toEqual([signed.txID, Buffer.from(whole.serializeBinary()).toString('hex')])
  }
})

test('what is done with a stake has the bytes, the id and the signature that tronweb makes', async () => {
  const key = TronWeb.fromMnemonic(phrase, "m/44'/195'/0'/0/1")
  const offline = new TronWeb({fullHost: 'http://127.0.0.1:1'})
  const plan = planOf({timestamp: 1_790_000_000_123})
  const {timestamp, destination: receiver} = plan
  const blockHeader = {
    ref_block_bytes: '4567',
    ref_block_hash: 'f0e1d2c3b4a59687',
    expiration: plan.lifetime.end,
    timestamp,
  }
  const options = {blockHeader} as never
  const {transactionBuilder: build} = offline
  const common = {owner: source, amount: 5_000_000n}
  const made: [NonNullable<TronTerms['staking']>, unknown][] = [
    [{...common, kind: 'stake', resource: 'energy'}, await build.freezeBalanceV2(5_000_000, 'ENERGY', source, options)],
    [
      {...common, kind: 'stake', resource: 'bandwidth'},
      await build.freezeBalanceV2(5_000_000, 'BANDWIDTH', source, options),
    ],
    [
      {...common, kind: 'unstake', resource: 'energy'},
      await build.unfreezeBalanceV2(5_000_000, 'ENERGY', source, options),
    ],
    [{kind: 'reclaim', owner: source}, await build.withdrawExpireUnfreeze(source, options)],
    [
      {...common, kind: 'delegate', resource: 'energy', receiver},
      await build.delegateResource(5_000_000, receiver, 'ENERGY', source, false, undefined, options),
    ],
    [
      {...common, kind: 'undelegate', resource: 'energy', receiver},
      await build.undelegateResource(5_000_000, receiver, 'ENERGY', source, options),
    ],
  ]
  for (const [staking, built] of made) {
    const {txid, raw} = await sign(keys, {...plan, staking})
    const signed = await offline.trx.sign(built as never, key.privateKey.slice(2))
    const whole = utils.transaction.txJsonToPb(built as never)
    whole.addSignature(Buffer.from((signed as {signature: string[]}).signature[0]!.replace(/^0x/, ''), 'hex'))
    expect([staking.kind, txid, raw]).toEqual([
      staking.kind,
      (signed as {txID: string}).txID,
      Buffer.from(whole.serializeBinary()).toString('hex'),
    ])
  }
})

test('what is signed does not depend on the tools: a known answer', async () => {
  const {txid} = await sign(keys, planOf({destination: 'TWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaL6', amount: 5n}))
  expect(txid).toBe('4ce0bf809ce57cf744fd1d924e041c6649a485efb0fd34ac4e00f812f46d909f')
})

test('a node takes it; it has no memo and no limit of fees, and another time makes it another payment', async () => {
  const chain = new TronLocalChain(new TronJournal(':memory:', 'TRON'))
  const {hash} = chain.mine()
  const settings = settingsFrom('TRON')
  expect(families.tron.address(await keys.publicKey(path), settings as never)).toBe(source)
  chain.submit(rawOf(payment({key: faucetKey, on: {height: 1, hash}}, source, 10_000_000n)))
  chain.mine()
  const lifetime = {from: 1, end: Date.now() + 60_000, clock_ms: 0}
  const plan = planOf({on: {height: 1, hash}, lifetime, amount: 1000n})
  const [one, other] = [await sign(keys, plan), await sign(keys, {...plan, timestamp: 2})]
  expect(one.txid).not.toBe(other.txid)
  expect(await sign(keys, plan)).toEqual(one)
  const {memo, feeLimit} = parseRawData(parseTransaction(Buffer.from(one.raw, 'hex')).rawData)
  expect([memo.length, feeLimit]).toEqual([0, 0n])
  expect([chain.submit(one.raw), chain.submit(other.raw)]).toEqual([one.txid, other.txid])
  chain.mine()
  expect(chain.account(plan.destination)?.balance).toBe(2000n)
})

test('an amount that the wire would change is refused', async () => {
  for (const amount of [2n ** 63n, 2n ** 64n + 1n, -1n])
    await expect(sign(keys, planOf({amount}))).rejects.toThrow('cannot move')
  for (const amount of [0n, 2n ** 63n, -1n])
    await expect(
      sign(keys, planOf({staking: {kind: 'stake', owner: source, resource: 'energy', amount}})),
    ).rejects.toThrow('nobody can stake')
})
