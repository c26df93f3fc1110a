// What payouts of Solana make of what a node says of tokens, on a real local chain.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {settingsFrom} from '../../../chains/settings.ts'
import {refusedToken} from '../../../chains/solana/check-tokens.ts'
import {addToken, solanaSettings} from '../../../chains/solana/settings.ts'
import {SolanaLocalChain} from '../../../devnet/solana/chain.ts'
import {newAddress} from '../../../devnet/solana/client.ts'
import {SolanaJournal} from '../../../devnet/solana/journal.ts'
import {tokenCalled} from '../../../devnet/solana/tokens.ts'
import type {RpcProxy} from '../../../test/support/rpc-proxy.ts'
import {startNode} from '../../../test/support/solana/node.ts'
import {solana} from './node.ts'

let proxy: RpcProxy
beforeAll(async () => {
  const chain = new SolanaLocalChain(new SolanaJournal(':memory:', 'SOL'))
  chain.mine(2)
  proxy = (await startNode(chain)).node
})
afterAll(() => proxy.close())

const settingsWith = (contracts: Record<string, string>) =>
  solanaSettings(settingsFrom('SOL', {SOL_NETWORK: 'local', SOL_RPC_URL: proxy.httpUrl, ...contracts}))
const mintOf = (token: string) => tokenCalled(token).mint

test('a token whose mint is not what the settings say waits, in words, and stops no other', async () => {
  const chain = solana(settingsWith({SOL_USDC_CONTRACT: mintOf('USDC'), SOL_USDT_CONTRACT: mintOf('FEEUSD')}))
  expect(await chain.wrongMint('USDC')).toBeUndefined()
  expect(await chain.wrongMint('USDT')).toMatchObject({
    reason: 'token_refused',
    detail: `SOL USDT cannot be followed: its mint ${mintOf('FEEUSD')} was asked, and it belongs to the program token-2022, not token; correct SOL_USDT_CONTRACT`,
  })
})

test('a chain is not followed with a mint that is none; the way out of one that was added is to disable it', async () => {
  const nothing = newAddress()
  const settings = settingsWith({SOL_USDC_CONTRACT: nothing})
  const refused = () => solana(settings).nodes.ask(node => refusedToken(settings, node))
  expect(await refused()).toMatch(/its mint \w+ was asked, and there is no mint at this address; correct SOL_USDC_CON/)
  const good = settingsWith({})
  const sweep = {by: 'treasury', program: 'token-2022', accepts: []}
  const amounts = {minPayout: 1n, sweepMin: 1n, payoutLimit: undefined, dailyLimit: undefined}
  const named = {token: 'FEEUSD', name: 'SOL-FEEUSD', displayName: 'Fee', decimals: 6, contract: mintOf('FEEUSD')}
  addToken(good, {...named, ...amounts, sweep})
  expect(await solana(good).nodes.ask(node => refusedToken(good, node))).toMatch(
    /its extension TransferFeeConfig: it takes a fee on transfers.*; ask its issuer, or have it count no more: sluice token disable$/,
  )
})
