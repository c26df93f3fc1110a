// What payouts make of what java-tron really answers (test/recorded/README.md): a refusal is never a success, and what
// is not there is no reason to pay or not to pay.
import {afterEach, expect, test} from 'vitest'
import {z} from 'zod'
import {settingsFrom} from '../../../chains/settings.ts'
import {addressOf} from '../../../chains/tron/address.ts'
import {transferBytes} from '../../../chains/tron/bytes.ts'
import {tronSettings} from '../../../chains/tron/settings.ts'
import {recorded, replay} from '../../../test/support/recorded.ts'
import type {RpcProxy} from '../../../test/support/rpc-proxy.ts'
import {broadcast, cannotSweep, sweepFees, type Tron, tooDearNow, tron, unpayable} from './node.ts'

let proxy: RpcProxy | undefined
afterEach(async () => {
  await proxy?.close()
  proxy = undefined
})

async function chainOf(...names: string[]): Promise<Tron> {
  proxy = await replay(...names)
  const settings = tronSettings(settingsFrom('TRON', {TRON_NETWORK: 'local', TRON_RPC_URL: proxy.httpUrl}))
  return tron(settings)
}

const zion = addressOf(Buffer.from('41f72c33c85af349b982e608ce36312fe66bb4eee3', 'hex'))
const stranger = addressOf(Buffer.alloc(21, 0x11).fill(0x41, 0, 1))

test('an account can be paid, and so can an address that has none yet', async () => {
  const chain = await chainOf('tron/account', 'tron/account-none')
  expect([await unpayable(chain, zion), await unpayable(chain, stranger)]).toEqual([undefined, undefined])
  expect(await cannotSweep(chain, zion)).toBeUndefined()
  expect(await cannotSweep(chain, stranger)).toMatchObject({
    detail: expect.stringMatching('has no account on Tron yet'),
  })
})

test('the prices of the network are within what is allowed, and a sweep pays by them unless its bytes are free', async () => {
  const chain = await chainOf('tron/chain-parameters', 'tron/account-resource', 'tron/account-resource-none')
  expect(await tooDearNow(chain)).toBeUndefined()
  const paid = transferBytes * 1000n
  expect(await sweepFees(chain, [zion, stranger], new Set())).toEqual([0n, paid])
  expect(await sweepFees(chain, [zion, stranger], new Set([zion]))).toEqual([paid, paid])
})

const Sent = z.object({request: z.object({body: z.object({transaction: z.string()})})})

test.each<[string, string | undefined]>([
  ['tron/broadcast-success', undefined],
  ['tron/broadcast-duplicate', undefined], // it waits for a block
  ['tron/broadcast-duplicate-mined', undefined],
  ['tron/broadcast-balance-not-sufficient', 'CONTRACT_VALIDATE_ERROR'],
  ['tron/broadcast-expired', 'TRANSACTION_EXPIRATION_ERROR'],
  ['tron/broadcast-to-contract', 'CONTRACT_VALIDATE_ERROR'],
  ['tron/broadcast-wrong-reference', 'TAPOS_ERROR'],
  ['tron/broadcast-wrong-signature', 'SIGERROR'],
])('%s: the network has the transaction, or the error is %s', async (name, code) => {
  const [error] = await broadcast(await chainOf(name), [recorded(name, Sent).request.body.transaction])
  expect(error?.split(':')[0]).toBe(code)
})
