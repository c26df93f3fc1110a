// Custody's signatures for the made-up family, checked by one of its nodes.
import {expect, test} from 'vitest'
import {parseTransaction} from '../../chains/madeup/block.ts'
import {settingsFrom} from '../../chains/settings.ts'
import {MadeUpJournal, MadeUpLocalChain} from '../../devnet/madeup/chain.ts'
import {newAddress, payment} from '../../devnet/madeup/client.ts'
import {families, familyOf} from '../families.ts'
import {localKeys} from '../keys.ts'
import type {Plan} from '../policy.ts'

const phrase = 'test test test test test test test test test test test junk'

test('made up: a node accepts what custody signs, and refuses it with a changed signature or content', async () => {
  const settings = settingsFrom('MADEUP')
  const keys = await localKeys(phrase, families)
  const path = {family: 'madeup', purpose: 'treasury', index: 0} as const
  const [from, to] = [families.madeup.address(await keys.publicKey(path), settings as never), newAddress()]
  const {raw, txid} = await familyOf(settings).sign(settings, keys, {
    path,
    destination: to,
    amount: 7n,
  } as never as Plan)
  const chain = new MadeUpLocalChain(new MadeUpJournal(':memory:', 'MADEUP'))
  chain.mine()
  const changed = (change: (text: string) => string) =>
    Buffer.from(change(Buffer.from(raw, 'hex').toString())).toString('hex')
  const foreign = parseTransaction(payment([{to, amount: 7n}]))
  for (const wrong of [
    changed(text => text.replace('"amount":"7"', '"amount":"8"')),
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
