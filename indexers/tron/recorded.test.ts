// What blocks of java-tron say about addresses (test/recorded/README.md): deposits, fees and positions are those that
// the recordings show, and every root agrees.
import {afterEach, describe, expect, test} from 'vitest'
import {z} from 'zod'
import {settingsFrom} from '../../chains/settings.ts'
import {addressOf} from '../../chains/tron/address.ts'
import {TronNodes} from '../../chains/tron/client.ts'
import {Block, Info} from '../../chains/tron/responses.ts'
import {tronSettings} from '../../chains/tron/settings.ts'
import {recorded, replay} from '../../test/support/recorded.ts'
import type {RpcProxy} from '../../test/support/rpc-proxy.ts'
import type {BlockRef} from '../cursor.ts'
import {readBlock} from './read-block.ts'
import {TronSource} from './source.ts'

const text = (hex: string) => addressOf(Buffer.from(hex, 'hex'))
const zion = text('41f72c33c85af349b982e608ce36312fe66bb4eee3')
const helper = text('41ae1a46b11d77fbb1f7eb24e654459355e588dacd')

let proxy: RpcProxy | undefined
afterEach(async () => {
  await proxy?.close()
  proxy = undefined
})

/** A source whose node knows these recordings. No block of theirs may be unproven. */
async function sourceOf(...names: string[]): Promise<TronSource> {
  proxy = await replay(...names)
  const settings = tronSettings(settingsFrom('TRON', {TRON_NETWORK: 'local', TRON_RPC_URL: proxy.httpUrl}))
  const isProven = ({height}: BlockRef) => Promise.reject(new Error(`block ${height} has not the root in its header`))
  return new TronSource(new TronNodes(settings), settings, isProven)
}

const idOf = (hash: string) => hash.slice(0, 8)

test('block 62: what contracts moved, what they failed to move, and what each call cost', async () => {
  const source = await sourceOf('tron/blocks-with-contract-calls', 'tron/infos-with-internal-transactions')
  const {hash, candidates, sent} = await source.block(62)
  expect(hash).toBe('000000000000003e5f41488b5be4553184818d3af7ab1e8d5dd01e9cf68bdcf5')
  const found = candidates.map(({txid, outputIndex, token, amount, sender, recipientKey}) => {
    return [idOf(txid), outputIndex, token, amount, sender, recipientKey]
  })
  const made = text('41637c04a99aebac7b1ecb1cbf97adb63c322a57b0') // by the call whose id begins with 6a60
  expect(found).toEqual([
    ['0cd06014', 0, 'TRX', 5_000_000n, zion, text('4176e958f7075fc8eaace5623efc93eb13513676ea')],
    ['3ec7d76a', 1, 'TRX', 1_000_000n, helper, text('418790dbfcaf443d03cfa248ed196922d73cb0488b')],
    ['3ec7d76a', 2, 'TRX', 2_000_001n, helper, text('4196e2aa1fb35d9cb343455db6985b69affc617014')],
    ['3ec7d76a', 3, 'TRX', 3n, helper, text('4176e958f7075fc8eaace5623efc93eb13513676ea')],
    ['a149b7c5', 1, 'TRX', 1_500_000n, helper, text('41d1f21e1626b99d6d35a4207577eaa688e040f758')],
    ['3c3adf10', 3, 'TRX', 700_000n, helper, text('416d2835749cb0311ef83a2712a40d7fc1fef8e4c1')],
    ['6a607e11', 1, 'TRX', 1_234_567n, helper, made],
    ['6a607e11', 2, 'TRX', 1_234_567n, made, text('4193ee7fd0b463ebaf37f54a645dae93a9349bc841')],
  ])
  expect(sent.map(({txid, senderKey, executed, fee}) => [idOf(txid), senderKey, executed, fee])).toEqual([
    ['0cd06014', zion, true, 100_000n],
    ['3ec7d76a', zion, true, 15_159_060n],
    ['a149b7c5', zion, true, 6_755_280n],
    ['33fe7054', zion, true, 6_889_470n], // a payment in it failed, and was caught
    ['3c3adf10', zion, true, 13_586_580n],
    ['a49e8b7a', zion, false, 6_778_800n], // REVERT
    ['6a607e11', zion, true, 6_868_050n],
    ['58588b9f', zion, false, 49_999_950n], // OUT_OF_ENERGY
    ['c26d43b2', zion, true, 412_280n], // moves nothing
  ])
})

describe('a transaction of another type', () => {
  const [recipient, other] = [
    '4174176502604660359d88cf7aa3e622b3d38a5bbf',
    '41862ee843f9885fd71bd594346817271b3fe3375a',
  ]
  const owner = text('4169f9fff887f96bbc169e7ccd717b7405d17a1338')
  const witness = text('414ba5b34f86994bfaaa66f865f3baf804f9acde84')
  const token = text('410f61220af2f77b4a5487338ea44d4ae7583607c6')

  test.each<[string, string, number, string, bigint[], unknown[]]>([
    ['tron/block-AccountCreateContract', 'tron/infos-AccountCreateContract', 79, zion, [0n, 0n], []],
    ['tron/block-AssetIssueContract', 'tron/infos-AssetIssueContract', 82, zion, [1_024_000_000n], []],
    ['tron/block-CreateSmartContract', 'tron/infos-CreateSmartContract', 61, zion, [69_082_020n], []],
    ['tron/block-DelegateResourceContract', 'tron/infos-DelegateResourceContract', 79, zion, [0n, 0n], []],
    ['tron/block-FreezeBalanceV2Contract', 'tron/infos-FreezeBalanceV2Contract', 76, zion, [252_000n], []],
    ['tron/block-ProposalCreateContract', 'tron/infos-ProposalCreateContract', 22, witness, [0n], []],
    ['tron/block-UnfreezeBalanceV2Contract', 'tron/infos-UnfreezeBalanceV2Contract', 86, zion, [0n], []],
    ['tron/block-permission-update', 'tron/infos-permission-update', 93, owner, [100_000_000n], []],
    [
      'tron/block-TransferAssetContract',
      'tron/infos-TransferAssetContract',
      84,
      zion,
      [0n],
      [{outputIndex: 0, token: 'TRC10:1000001', amount: 12_345n, sender: zion, recipientKey: text(recipient)}],
    ],
    [
      'tron/block-multisig-transfer',
      'tron/infos-multisig-transfer',
      94,
      owner,
      [1_000_000n],
      [{outputIndex: 0, token: 'TRX', amount: 3_000_003n, sender: owner, recipientKey: text(other)}],
    ],
    [
      'tron/block-trc20-transfer',
      'tron/infos-trc20-transfer',
      96,
      zion,
      [5_814_480n],
      [{outputIndex: 1_000_000, token, amount: 777n, sender: zion, recipientKey: text(recipient)}],
    ],
  ])('(%s) is by its owner, and moves what it says', async (blocks, infos, height, senderKey, fees, moved) => {
    const {candidates, sent} = await (await sourceOf(blocks, infos)).block(height)
    expect(candidates).toMatchObject(moved)
    expect(candidates).toHaveLength(moved.length)
    expect(sent).toMatchObject(fees.map(fee => ({senderKey, executed: true, fee})))
    expect(sent).toHaveLength(fees.length)
  })

  test('is among many by many', async () => {
    const source = await sourceOf('tron/block-ProposalApproveContract', 'tron/infos-ProposalApproveContract')
    const {candidates, sent} = await source.block(26)
    expect([candidates, sent.length, sent.every(({executed, fee}) => executed && fee === 0n)]).toEqual([[], 75, true])
    expect(new Set(sent.map(({senderKey}) => senderKey)).size).toBe(20)
  })
})

describe('a token with the manners of USDT', () => {
  const Called = z.object({transaction: z.looseObject({}), info: Info})
  const Answer = z.object({response: z.looseObject({})})

  /** What the transaction of a recording does, as if the newest block had it. */
  function read(name: string, tokens = new Map<string, string>()) {
    const {transaction, info} = recorded(name, Called)
    const block = Block.parse({...recorded('tron/header', Answer).response, transactions: [transaction]})
    return readBlock(block, new Map([[info.txid, info]]), {native: 'TRX', tokens})
  }

  interface Network {
    token: string
    user: string
    other: string
  }
  const paid: Network = {
    token: text('4190b7443d0139053eb5ec3d12609d699d9eeaf40f'),
    user: text('417d0abf92a8e2dc107af3a4dc269fd05aaacf33fe'),
    other: text('4194427c54789ddbe280ceba398b741391d413230b'),
  }
  /** Where the callers staked for energy, or have it delegated. */
  const staked: Network = {
    token: text('41e42ce78c0f7044237fb3e36cfd93d1e23498f53f'),
    user: text('416bd4eaa78e97f8590c0241c56ed26fdabf23fd50'),
    other: text('4105f5f58c3b33472f9497e7bf2d810e9de08d1e12'),
  }

  type Way = (on: Network, amount: bigint) => unknown[]
  const receives: Way = ({user}, amount) => [[1_000_000, zion, user, amount]]
  const sends: Way = ({user}, amount) => [[1_000_000, user, zion, amount]]
  const keeps: Way = (_, amount) => [[1_000_000, zion, zion, amount]]
  const loses: Way = ({other}, amount) => [
    [1_000_000, zion, other, amount],
    [1_000_001, zion, zion, 1000n],
  ]

  test.each<[string, Network, bigint, Way, bigint]>([
    ['tron/trc20/transfer-to-new-holder', paid, 5_946_570n, receives, 5_000_000n],
    ['tron/trc20/transfer-to-holder', paid, 2_796_570n, receives, 5_000_000n],
    ['tron/trc20/refill', paid, 5_946_570n, receives, 7_000_000n],
    ['tron/trc20/refill2', paid, 5_946_570n, receives, 3_000_000n],
    ['tron/trc20/sweep-whole-balance', paid, 2_796_570n, sends, 10_000_000n],
    ['tron/trc20/sweep-with-delegated-energy', paid, 2_796_570n, sends, 7_000_000n],
    ['tron/trc20/transfer-with-token-fee', paid, 7_451_010n, loses, 999_000n],
    ['tron/trc20/self-transfer', paid, 2_796_570n, keeps, 1n],
    ['tron/trc20-staked/transfer-to-new-holder', staked, 0n, receives, 5_000_000n],
    ['tron/trc20-staked/transfer-to-holder', staked, 0n, receives, 5_000_000n],
    ['tron/trc20-staked/refill', staked, 0n, receives, 7_000_000n],
    ['tron/trc20-staked/refill2', staked, 0n, receives, 3_000_000n],
    ['tron/trc20-staked/sweep-with-delegated-energy', staked, 0n, sends, 7_000_000n],
    ['tron/trc20-staked/transfer-with-token-fee', staked, 0n, loses, 999_000n],
    ['tron/trc20-staked/self-transfer', staked, 0n, keeps, 1n],
  ])('moves what its logs say (%s), and its caller pays the fee', (name, on, fee, way, amount) => {
    const {candidates, sent} = read(name, new Map([[on.token, 'USDT']]))
    const moved = candidates.map(({outputIndex, sender, recipientKey, amount}) => {
      return [outputIndex, sender, recipientKey, amount]
    })
    expect(moved).toEqual(way(on, amount))
    expect(candidates.every(({token}) => token === 'USDT')).toBe(true)
    expect(read(name).candidates.every(({token}) => token === on.token)).toBe(true)
    expect(sent).toMatchObject([{senderKey: way === sends ? on.user : zion, executed: true, fee}])
  })

  test.each<[string, Network, bigint]>([
    ['tron/trc20/more-than-balance', paid, 216_090n],
    ['tron/trc20/sweep-blacklisted', paid, 121_800n],
    ['tron/trc20/sweep-out-of-energy', paid, 999_810n],
    ['tron/trc20-staked/more-than-balance', staked, 216_090n],
    ['tron/trc20-staked/sweep-blacklisted', staked, 121_800n],
  ])('moves nothing if the call fails (%s), and its caller pays the fee', (name, {user}, fee) => {
    const {candidates, sent} = read(name)
    expect(candidates).toEqual([])
    expect(sent).toMatchObject([{senderKey: user, executed: false, fee}])
  })

  test.each([
    'tron/trc20/delegate-energy',
    'tron/trc20/undelegate-energy',
    'tron/trc20-staked/delegate-energy',
    'tron/trc20-staked/undelegate-energy',
  ])('is called with energy that somebody delegates, which moves no coins (%s)', name => {
    const {candidates, sent} = read(name)
    expect(candidates).toEqual([])
    expect(sent).toMatchObject([{senderKey: zion, executed: true, fee: 0n}])
  })
})
