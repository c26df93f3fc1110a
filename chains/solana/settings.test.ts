// The settings of Solana: which nodes are asked, and who gets the key of Helius.
import {expect, test} from 'vitest'
import {chain, type SolanaChain} from '../registry.ts'
import {solanaReading, solanaVariables} from './settings.ts'

function read(environment: Record<string, string>) {
  const problems: string[] = []
  return {settings: solanaVariables(chain('SOL') as SolanaChain).read(environment, problems), problems}
}

const helius = 'https://devnet.helius-rpc.com/'

test('without a node there are no endpoints; the key alone names the nodes of Helius', () => {
  expect(read({}).settings).toMatchObject({network: 'devnet', endpoints: [], family: 'solana'})
  expect(read({HELIUS_API_KEY: 'k'}).settings?.endpoints).toEqual([{url: helius, apiKey: 'k'}])
})

test('only Helius gets the key', () => {
  const given = {
    SOL_RPC_URL: 'https://node.example/?a=b',
    SOL_RPC_URL_2: helius,
    SOL_ARCHIVE_RPC_URL: 'https://nothelius-rpc.com/',
    HELIUS_API_KEY: 'k',
  }
  const {settings} = read(given)
  expect(settings).toMatchObject({
    endpoints: [{url: given.SOL_RPC_URL}, {url: helius, apiKey: 'k'}],
    archive: {url: given.SOL_ARCHIVE_RPC_URL},
  })
  expect(settings?.endpoints[0]?.apiKey).toBeUndefined()
  expect(settings?.archive?.apiKey).toBeUndefined()
  expect(read(solanaReading(settings!)).settings).toEqual(settings)
})

test.each<[Record<string, string>, RegExp]>([
  [{SOL_RPC_URL: `${helius}?api-key=x`, HELIUS_API_KEY: 'k'}, /SOL_RPC_URL: must have no parameters/],
  [{SOL_RPC_URL_2: helius}, /SOL_RPC_URL_2: has no effect without SOL_RPC_URL/],
  [{SOL_WS_URL: 'wss://node.example', SOL_NETWORK: 'testnet', HELIUS_API_KEY: 'k'}, /SOL_WS_URL: has no effect/],
  [{SOL_RPC_URL: 'ftp://node.example'}, /SOL_RPC_URL: must be a URL/],
  [{SOL_RPC_URL: 'none', HELIUS_API_KEY: 'k'}, /SOL_RPC_URL: must be a URL/],
])('%j is refused', (given, message) => {
  const {settings, problems} = read(given)
  expect(settings).toBeUndefined()
  expect(problems.join()).toMatch(message)
})
