// What blocks of agave say about addresses (test/recorded/README.md): deposits, fees and positions are those that the
// recordings show.
import {afterEach, expect, test} from 'vitest'
import {z} from 'zod'
import {SolanaNode} from '../../chains/solana/client.ts'
import {recorded, replay} from '../../test/support/recorded.ts'
import type {RpcProxy} from '../../test/support/rpc-proxy.ts'
import {readBlock} from './read-block.ts'

let proxy: RpcProxy | undefined
afterEach(async () => {
  await proxy?.close()
  proxy = undefined
})

const About = z.object({about: z.string(), request: z.object({params: z.tuple([z.int()], z.unknown())})})

/** What the block says of its transaction `about`. */
async function read(name: string) {
  proxy = await replay(name)
  const {about, request} = recorded(name, About)
  const block = await new SolanaNode({url: proxy.httpUrl}, 2000).block(request.params[0], 'finalized')
  const {candidates, sent} = readBlock(block!, {native: 'SOL', tokens: new Map()})
  return {
    moved: candidates
      .filter(({txid}) => txid === about)
      .map(({txid: _, kind: _kind, isOutOfReach: _reach, ...moved}) => Object.values(moved)),
    sent: sent.filter(({txid}) => txid === about).map(({senderKey, executed, fee}) => [senderKey, executed, fee]),
    others: candidates.filter(({txid}) => txid !== about).length,
  }
}

const payer = 'Cts1PNrVepwYTqT8etcpPpFRHixZ3r7AdYP4qscPCUCq'
const [nonce, stake] = ['AMYs933GVstfh8FUWysMKmGfNArxTGPUpDLa7nm3sDJu', '67shdd9nPbkiXB5MALyKnu7MLwYwTzmdCmxmpihwe5dd']
const mint = '8SJh1iV7m9AXXWtgSHuit5Gz7iLoaCgDN8NaKEdYAzou'
const wrapped = 'So11111111111111111111111111111111111111112'
const paid = (fee = 5000n) => [payer, true, fee]
const signed = (key: string) => [key, true, 0n]
const coins = (outputIndex: number, amount: bigint, recipientKey: string, sender = payer) => {
  return [outputIndex, 'SOL', amount, sender, recipientKey]
}

test.each<[string, moved: unknown[], sent: unknown[]]>([
  ['solana/block-plain', [coins(1, 1_000_000_000n, 'EygJpCusQjPccZVTdQeewKGuV9E4sG7k3NRdrAJAcSuB')], [paid()]],
  [
    'solana/block-two', // two payments to one address are one deposit
    [
      coins(1, 2_001_000_001n, '2kWocwjX9hc2S1sTz1o4tUC4rAKhvMe7oxa9TQbRGBdU'),
      coins(2, 7_000_000n, 'EygJpCusQjPccZVTdQeewKGuV9E4sG7k3NRdrAJAcSuB'),
    ],
    [paid()],
  ],
  ['solana/block-failed', [], [[payer, false, 5000n]]],
  ['solana/block-rent', [coins(1, 890_880n, 'E7pavRonC91GEN2KNu2Zfz9drU7Pws6rSWDwEwtRYZXk')], [paid()]],
  ['solana/block-mkNonce', [coins(1, 2_000_000n, nonce)], [paid(10_000n), signed(nonce)]],
  ['solana/block-nonce', [coins(1, 123_456_789n, '88nDLrSuotEsNyPkmU6Xg1CjD25PEzwoB4Xanjx8sHLJ')], [paid()]],
  [
    'solana/block-nonceWithdraw',
    [coins(1, 2_000_000n, '88nDLrSuotEsNyPkmU6Xg1CjD25PEzwoB4Xanjx8sHLJ', nonce)],
    [paid()],
  ],
  ['solana/block-mkStake', [coins(1, 3_000_000_000n, stake)], [paid(10_000n), signed(stake)]],
  ['solana/block-stake', [coins(2, 3_000_000_000n, 'CGb1zUHPPo8pigjjT442pjCsnS9ur8r68SFfQpTFzRz1', stake)], [paid()]],
  ['solana/block-v0', [coins(1, 222_222_222n, 'DCrbZCqFkTdjT5iAQn438fj4iRihkrWf1imJiYVxyaxA')], [paid()]],
  ['solana/block-mkLut', [coins(1, 1_726_080n, 'DhBCDkfi3wiSa9aXf9tGhD4y6fLeJu3Vbv1Kfa7CXvfC')], [paid()]],
  [
    'solana/block-lookup', // the address is in a table, not in the message
    [coins(2, 333_333_333n, 'DLv57ZTEN2E8BXM8qg9n9njn1wGGQFoSAFvCZr616an2')],
    [paid()],
  ],
  ['solana/block-spl', [[1001, mint, 5_000_000n, payer, '7ebb6xYg5PM7cwbwV8YVJ8Lex6LfDNhMXNTj5HqcnSbb']], [paid()]],
  [
    'solana/block-closeacct', // no transfer says so
    [
      coins(
        3,
        2_039_280n,
        'FQAnbyRfg8sgKECrm8mra4GCCEZ8osca4dvrhxLk13ji',
        '4dsG2UEjFbV3S462NgspPaVfXaza2EjvHBrb9foq2vn4',
      ),
    ],
    [paid(10_000n), signed('Es7Xas8UEy9kkCPN1PF9QmHiC5XwmNMoyx6npGb7KLXW')],
  ],
  [
    'solana/block-wsol', // the coins of the token account are its rent and the token, which its owner gets
    [[1001, wrapped, 500_000_000n, payer, '4RM27Fs4meoiLyGXPFEVsBfeh72DTShtkivinFRy4pd3']],
    [paid()],
  ],
])('%s', async (name, moved, sent) => {
  expect(await read(name)).toEqual({moved, sent, others: 0}) // the other transactions are votes
})

test('two payments to the treasury and from a faucet in one block', async () => {
  const faucet = '56GsZsHubsFKbjCpmvGiUPHQrNXrVNWMpqmCtEo3LLXK'
  expect(await read('solana/block-airdrop')).toEqual({
    moved: [coins(1, 4_000_000_000n, '2i2bsKvDnuGvj9RXsqoavd8XBXP3HD5owYXr9jt4eba7', faucet)],
    sent: [[faucet, true, 5000n]],
    others: 1,
  })
  expect(await read('solana/block-treasury')).toEqual({
    moved: [coins(1, 5_000_000_000n, '2E6mKgCKtRrMAHbJsyxVG33u8QvYRikXqEy5Pnhbavy8')],
    sent: [paid()],
    others: 1,
  })
})
