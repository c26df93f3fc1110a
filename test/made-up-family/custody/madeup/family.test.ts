// Custody's signatures for the made-up family, checked by one of its nodes.
import {expect, test} from 'vitest'
import {addressOf, parseTransaction} from '../../chains/madeup/block.ts'
import {settingsFrom} from '../../chains/settings.ts'
import {MadeUpJournal, MadeUpLocalChain} from '../../devnet/madeup/chain.ts'
import {newAddress, newKey, payment, publicKeyOf} from '../../devnet/madeup/client.ts'
import {families, familyOf} from '../families.ts'
import type {Plan} from '../judge/plan.ts'
import {localKeys} from '../keys/key-store.ts'

const phrase = 'test test test test test test test test test test test junk'

test('made up: a node accepts what custody signs, and refuses it with a changed signature or content', async () => {
  const settings = settingsFrom('MADEUP')
  const keys = await localKeys(phrase, families)
  const path = {family: 'madeup', purpose: 'treasury', index: 0} as const
  const [from, to] = [families.madeup.address(await keys.publicKey(path), settings as never), newAddress()]
  const {raw, txid} = await familyOf(settings).sign(settings, keys, {
    paths: {source: path, feePayer: path},
    destination: to,
    amount: 7n,
    lifetime: {from: 0, end: 2, clock_ms: 0},
  } as never as Plan)
  const chain = new MadeUpLocalChain(new MadeUpJournal(':memory:', 'MADEUP'))
  chain.mine()
  const changed = (change: (text: string) => string) =>
    Buffer.from(change(Buffer.from(raw, 'hex').toString())).toString('hex')
  const foreign = parseTransaction(payment([{to, amount: 7n}]))
  for (const wrong of [
    changed(text => text.replace('"amount":"7"', '"amount":"8"')),
    changed(text => text.replace('"end":2', '"end":3')),
    changed(text => text.replace('"from":0', '"from":1')),
    changed(text => text.replace(/"salt":"(..)/, '"salt":"..')),
    changed(text => text.replace(/"signature":"(..)/, '"signature":"00')),
    changed(text => text.replace(/"signature":"\w+"/, `"signature":"${foreign.signature}"`)),
    changed(text => text.replace(/"publicKey":"\w+"/, `"publicKey":"${foreign.publicKey}"`)),
    changed(text => text.replace(/"signature":"\w+"/, '"signature":""')),
  ]) {
    expect(wrong).not.toBe(raw)
    expect(() => chain.submit(wrong)).toThrow('is not signed by')
    expect(() => chain.reorg(1, [[wrong]])).toThrow('is not signed by')
  }
  expect(parseTransaction(raw).from).toBe(from)
  expect(chain.submit(raw)).toBe(txid)
  chain.mine()
  expect(chain.received(to)).toBe(7n)
})

test('made up: a block holds a transaction within its lifetime only, and once; one that overspends fails, and costs its fee', () => {
  const chain = new MadeUpLocalChain(new MadeUpJournal(':memory:', 'MADEUP'))
  const [key, to] = [newKey(), newAddress()]
  const own = addressOf(publicKeyOf(key))
  const of = (amount: bigint, from: number, end: number) => payment([{to, amount}], key, {from, end})
  chain.submit(payment([{to: own, amount: 100n}]))
  chain.mine(2)
  expect(() => chain.submit(of(1n, 0, 2))).toThrow('is past its end')
  expect(() => chain.submit(of(1n, 3, 9))).toThrow('is not there yet')
  const last = chain.submit(of(10n, 2, 3))
  chain.mine(1)
  expect([chain.includes(last), chain.balance(own)]).toEqual([true, 88n])
  const [late, dear] = [chain.submit(of(10n, 2, 4)), chain.submit(of(87n, 2, 9))]
  chain.mine(1, {only: []})
  expect([chain.waits(late), chain.waits(dear)]).toEqual([false, true])
  chain.mine(2)
  expect([chain.includes(late), chain.includes(dear), chain.balance(own), chain.received(to)]).toEqual([
    false,
    true,
    86n,
    10n,
  ])
})
