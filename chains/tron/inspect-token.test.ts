// What an operator reads of a token on Tron before adding it: a transfer is tried by somebody who holds the token, who
// is looked for in ten minutes of blocks.
import {afterEach, beforeEach, expect, test} from 'vitest'
import {answer} from '../../devnet/tron/api.ts'
import {TronLocalChain} from '../../devnet/tron/chain.ts'
import {call, newAddress, type Signing} from '../../devnet/tron/client.ts'
import {contracts, faucetKey, issuer, issuerKey} from '../../devnet/tron/constants.ts'
import {issuerData, tokenTransferData} from '../../devnet/tron/contracts.ts'
import {TronJournal} from '../../devnet/tron/journal.ts'
import {RpcProxy} from '../../test/support/rpc-proxy.ts'
import {settingsFrom} from '../settings.ts'
import {inspectToken} from './inspect-token.ts'
import {tronSettings} from './settings.ts'
import {rawOf} from './transaction.ts'

let chain: TronLocalChain
let node: RpcProxy
beforeEach(async () => {
  chain = new TronLocalChain(new TronJournal(':memory:', 'TRON'), 2)
  chain.mine(3)
  node = await RpcProxy.start({call: async (path, [body]) => answer(chain, path, JSON.stringify(body))})
})
afterEach(async () => {
  await node.close()
  chain.journal.close()
})

const signing = (key: Signing['key']): Signing => ({key, on: {height: chain.head.height, hash: chain.head.hash}})

/** In a block, and `blocks` later. */
function send(key: Signing['key'], data: Uint8Array, blocks: number): void {
  chain.submit(rawOf(call(signing(key), {contract: contracts.usdt, data})))
  chain.mine(1 + blocks)
}

async function triedTransfer(): Promise<string> {
  const settings = tronSettings(settingsFrom('TRON', {TRON_NETWORK: 'local', TRON_RPC_URL: node.httpUrl}))
  const {facts} = await inspectToken(settings, contracts.usdt)
  return String(facts({by: 'fund'})['a transfer'])
}

test('somebody who got the token minutes ago is found, and the transfer is tried', async () => {
  send(faucetKey, tokenTransferData(newAddress(), 5n), 150)
  expect(await triedTransfer()).toBe('arrives whole, by its log')
})

test('a token that takes a fee from who got it minutes ago is refused', async () => {
  send(faucetKey, tokenTransferData(newAddress(), 5_000_000n), 0)
  send(issuerKey, issuerData('setParams', [15n, 10n]), 100)
  await expect(triedTransfer()).rejects.toThrow('takes a fee')
})

test('where nobody got it lately, its maker is asked, and what that proves is said; else that nothing was tried', async () => {
  chain.mine(250)
  expect(await triedTransfer()).toMatch(/^was not tried: nobody was seen who got it in the last 200 blocks/)
  send(faucetKey, tokenTransferData(issuer, 5n), 250)
  expect(await triedTransfer()).toMatch(/^arrives whole, by its log, if its maker sends it/)
})
