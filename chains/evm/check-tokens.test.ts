// The checks with contracts of a real chain before their tokens are followed.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {RetryableError} from '../../base/errors.ts'
import {Anvil, localChainId, ownTokens} from '../../test/support/evm/anvil.ts'
import {faults, RpcProxy} from '../../test/support/rpc-proxy.ts'
import {readSettings} from '../settings.ts'
import {tokenGuard} from '../token-guard.ts'
import {refusedToken} from './check-tokens.ts'
import {evmSettings} from './settings.ts'

let anvil: Anvil
beforeAll(async () => {
  anvil = await Anvil.start()
})
afterAll(() => anvil.stop())

const settingsOf = (more: Record<string, string>, change: object = {}) =>
  evmSettings(
    readSettings({
      ETH_RPC_URL: anvil.httpUrl,
      ETH_CHAIN_ID: `${localChainId}`,
      ETH_TOKENS: JSON.stringify([{...ownTokens[0], ...change}]),
      ...more,
    }).chains.get('ETH'),
  )

test('tokens are accepted when their contracts match their entries, and so is a chain without tokens', async () => {
  expect(await refusedToken(settingsOf({ETH_USDC_CONTRACT: anvil.usdc}))).toBeUndefined()
  expect(await refusedToken(settingsOf({ETH_RPC_URL: 'http://127.0.0.1:1', ETH_TOKENS: ''}))).toBeUndefined()
})

test('a token with other decimals, another domain, no contract, or no authorisations is refused', async () => {
  const why = (change: object) => refusedToken(settingsOf({}, change))
  expect(await why({decimals: 18})).toMatch(
    /^ETH EURC cannot be followed: its contract 0x\w{40} was asked for decimals\(\), and it returned 6, not the entry's 18; correct its setting \(.*ETH_TOKENS for your own\), or remove it$/,
  )
  const domain = {name: 'EURC', version: '1'}
  expect(await why({sweep: {by: 'eip3009', domain}})).toMatch(
    /was asked for DOMAIN_SEPARATOR\(\), and it returned 0x\w{64}, not the 0x\w{64} of the entry's domain \(name "EURC", version "1", chain 31337\)/,
  )
  expect(await why({contract: `0x${'12'.repeat(20)}`})).toContain('was asked for its code, and there is none at this')
  expect(await why({contract: anvil.multisend})).toContain('was asked for decimals(), and it refused, not')
  expect(await why({contract: anvil.switch})).toContain('was asked for decimals(), and it returned nothing, not')
  expect(await refusedToken(settingsOf({ETH_USDC_CONTRACT: anvil.multisend}))).toContain('ETH USDC cannot be followed')
})

test('a token without authorisations is refused, even if its domain is right', async () => {
  const rpc = await RpcProxy.start(anvil)
  rpc.behave = ({params}, pass) => (JSON.stringify(params).includes('e94a0102') ? '0x' : pass())
  expect(await refusedToken(settingsOf({ETH_RPC_URL: rpc.httpUrl}))).toContain(
    'was asked for authorizationState(address,bytes32), and it returned nothing, so it has no authorisations (EIP-3009)',
  )
  rpc.behave = () => faults.error()
  await expect(refusedToken(settingsOf({ETH_RPC_URL: rpc.httpUrl}))).rejects.toThrow(RetryableError)
  await rpc.close()
})

test('nothing starts while a node cannot be asked, or a token is refused', async () => {
  const guard = (settings: Parameters<typeof refusedToken>[0]) => tokenGuard(() => refusedToken(settings))()
  await expect(guard(settingsOf({ETH_RPC_URL: 'http://127.0.0.1:1'}))).rejects.toThrow(RetryableError)
  await expect(guard(settingsOf({}, {decimals: 7}))).rejects.toThrow('ETH EURC cannot be followed')
  await guard(settingsOf({}))
})
