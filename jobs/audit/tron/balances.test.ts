// Balances of Tron against the ledger: nodes keep none of the past, so the chain must stand still while they are read.
import {afterEach, beforeEach, expect, test} from 'vitest'
import {settingsFrom} from '../../../chains/settings.ts'
import {tronSettings} from '../../../chains/tron/settings.ts'
import {rawOf} from '../../../chains/tron/transaction.ts'
import {answer} from '../../../devnet/tron/api.ts'
import {TronLocalChain} from '../../../devnet/tron/chain.ts'
import {newAddress, payment} from '../../../devnet/tron/client.ts'
import {faucetKey} from '../../../devnet/tron/constants.ts'
import {TronJournal} from '../../../devnet/tron/journal.ts'
import {RpcProxy} from '../../../test/support/rpc-proxy.ts'
import {askBalances} from './balances.ts'

let chain: TronLocalChain
let node: RpcProxy
let address: string
beforeEach(async () => {
  chain = new TronLocalChain(new TronJournal(':memory:', 'TRON'), 2)
  const {hash} = chain.mine()
  address = newAddress()
  chain.submit(rawOf(payment({key: faucetKey, on: {height: 1, hash}}, address, 7n)))
  chain.mine(2) // the payment is in the next block that is solidified
  node = await RpcProxy.start({call: async (path, [body]) => answer(chain, path, JSON.stringify(body))})
})
afterEach(async () => {
  await node.close()
  chain.journal.close()
})

/** A ledger that agrees with the solidified block, or with one that will be, but for `wrong`. */
function ask(wrong = 0n, ahead = () => 0, addresses = [address], tries?: {most: number; pauseMs: number}) {
  const query = async () => {
    const height = chain.solidHeight + ahead()
    const {hash} = chain.block(height)
    const held = (of: string) => String((chain.journal.account(of, height)?.balance ?? 0n) + wrong)
    return {rows: addresses.map(of => ({height, hash, address: of, token: 'TRX', amount: held(of)}))}
  }
  const settings = tronSettings(settingsFrom('TRON', {TRON_NETWORK: 'local', TRON_RPC_URL: node.httpUrl}))
  return askBalances({query} as never, settings, tries)
}

test('an address that holds less, or more, than the ledger says is found', async () => {
  expect(await ask().poll([address])).toEqual({height: 1, differences: [], unread: []})
  chain.mine()
  expect(await ask().poll([address])).toMatchObject({height: 2, differences: []})
  const found = {address, token: 'TRX', outpoint: '', chain: 7n}
  expect((await ask(-1n).poll([address])).differences).toEqual([{...found, ledger: 6n}])
  expect((await ask(1n).poll([address])).differences).toEqual([{...found, ledger: 8n}])
})

test('balances that were read while another block became final are read again', async () => {
  let rounds = 0
  node.behave = ({method}, pass) => {
    if (method.endsWith('/getaccount') && !rounds++) chain.mine()
    return pass()
  }
  expect(await ask().poll([address])).toEqual({height: 2, differences: [], unread: []})
  expect(rounds).toBe(2)
})

test('more addresses than can be read between two blocks are read in parts, each at a block of its own', async () => {
  const many = [address, ...Array.from({length: 40}, newAddress)]
  const {height, hash} = chain.head
  for (const to of many.slice(1)) chain.submit(rawOf(payment({key: faucetKey, on: {height, hash}}, to, 3n)))
  chain.mine(3)
  let asked = 0
  node.behave = ({method}, pass) => {
    if (method.endsWith('/getaccount') && ++asked % 25 === 0) chain.mine()
    return pass()
  }
  const found = await ask(-1n, undefined, many).poll(many)
  expect(found.differences.map(one => one.address).sort()).toEqual(many.toSorted())
  expect(found.height).toBe(4)
  expect(asked).toBeLessThan(3 * many.length)
})

test('balances that were read before the node had the final block of the ledger are read again', async () => {
  let ahead = 1
  node.behave = async ({method}, pass) => {
    const response = await pass()
    if (method.endsWith('/getaccount') && ahead) chain.mine()
    if (method.endsWith('/getblock') || method.endsWith('/getaccount')) ahead = 0
    return response
  }
  expect(await ask(0n, () => ahead).poll([address])).toMatchObject({differences: []})
})

test('a node whose final block is never that of the ledger is no match', async () => {
  const asked = ask(0n, () => 1, [address], {most: 3, pauseMs: 1})
  await expect(asked.poll([address])).rejects.toThrow('no final block in common')
})

test('what a payment that is not final changes is no difference', async () => {
  const {height, hash} = chain.head
  chain.submit(rawOf(payment({key: faucetKey, on: {height, hash}}, address, 5n)))
  chain.mine()
  expect(await ask().poll([address])).toEqual({height: 2, differences: [], unread: []})
  expect(chain.account(address)?.balance).toBe(12n)
})
