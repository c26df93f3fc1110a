// The client of Tron nodes, on what java-tron really answers (test/recorded/README.md): ids and roots are computed, and
// nothing of what is not there is taken for something.
import {afterEach, describe, expect, test} from 'vitest'
import {z} from 'zod'
import {recorded, replay} from '../../test/support/recorded.ts'
import type {RpcProxy} from '../../test/support/rpc-proxy.ts'
import {addressOf} from './address.ts'
import {txTrieRoot} from './block.ts'
import {TronNode} from './client.ts'
import {Block, ContractInfo, FreeBytes, Info, Prices, Tried} from './responses.ts'
import {movedTo, transferIn} from './token-transfers.ts'
import {parseRawData, parseTransaction} from './transaction.ts'

let proxy: RpcProxy | undefined
afterEach(async () => {
  await proxy?.close()
  proxy = undefined
})

/** A node that knows these recordings. */
async function nodeOf(...names: string[]): Promise<TronNode> {
  proxy = await replay(...names)
  return new TronNode({url: proxy.httpUrl, solidityUrl: proxy.httpUrl}, undefined, 2000)
}

const text = (hex: string) => addressOf(Buffer.from(hex, 'hex'))
const zion = text('41f72c33c85af349b982e608ce36312fe66bb4eee3')
const stranger = text(`41${'11'.repeat(20)}`)

describe('headers', () => {
  test('of the first block, the newest and the newest solidified one have their ids', async () => {
    const node = await nodeOf('tron/genesis', 'tron/header', 'tron/solid-header')
    const first = await node.header(0)
    expect(first).toMatchObject({height: 0, time: 0, hash: expect.stringMatching(/^0{16}dcb7013944c25382.*fbff2$/)})
    expect(await node.header()).toMatchObject({height: 673, time: 1_795_681_401_000, version: 32n})
    expect(await node.solidHeader()).toMatchObject({height: 653, time: 1_795_681_335_000})
  })

  test('of a block that is not there are absent', async () => {
    expect(await (await nodeOf('tron/block-none')).header(99_999_999)).toBeUndefined()
  })
})

describe('blocks', () => {
  const BlocksFrom = z.object({request: z.object({body: z.object({startNum: z.int()})})})

  test.each([
    ['tron/blocks-with-contract-calls', 'tron/infos-with-internal-transactions', 9],
    ['tron/block-AccountCreateContract', 'tron/infos-AccountCreateContract', 2],
    ['tron/block-AssetIssueContract', 'tron/infos-AssetIssueContract', 1],
    ['tron/block-CreateSmartContract', 'tron/infos-CreateSmartContract', 1],
    ['tron/block-DelegateResourceContract', 'tron/infos-DelegateResourceContract', 2],
    ['tron/block-FreezeBalanceV2Contract', 'tron/infos-FreezeBalanceV2Contract', 1],
    ['tron/block-ProposalApproveContract', 'tron/infos-ProposalApproveContract', 75],
    ['tron/block-ProposalCreateContract', 'tron/infos-ProposalCreateContract', 1],
    ['tron/block-TransferAssetContract', 'tron/infos-TransferAssetContract', 1],
    ['tron/block-UnfreezeBalanceV2Contract', 'tron/infos-UnfreezeBalanceV2Contract', 1],
    ['tron/block-multisig-transfer', 'tron/infos-multisig-transfer', 1],
    ['tron/block-permission-update', 'tron/infos-permission-update', 1],
    ['tron/block-trc20-transfer', 'tron/infos-trc20-transfer', 1],
  ])('%s has the root in its header, and %s is of its %i transactions', async (name, infosName, count) => {
    const node = await nodeOf(name, infosName)
    const {startNum: height} = recorded(name, BlocksFrom).request.body
    const [block, ...others] = await node.blocks(height, 1)
    expect([block!.height, others, block!.transactions.length]).toEqual([height, [], count])
    expect(txTrieRoot(block!.transactions)).toBe(block!.txTrieRoot)
    const infos = await node.infos(height)
    expect(infos.map(({txid}) => txid)).toEqual(block!.transactions.map(({txid}) => txid))
    expect(infos.every(info => info.height === height && info.time === block!.time)).toBe(true)
    const signed = block!.transactions.map(({rawData}) => parseRawData(rawData).contract)
    expect(signed.every(({owner}) => owner !== undefined)).toBe(true)
  })

  test('that are not there are an empty list, and so is what came of their transactions', async () => {
    const node = await nodeOf('tron/blocks-none', 'tron/infos-none')
    expect(await node.blocks(99_999_999, 5)).toEqual([])
    expect(await node.infos(99_999_999)).toEqual([])
  })
})

describe('accounts', () => {
  test('have an exact balance, and bytes that cost nothing', async () => {
    const node = await nodeOf('tron/account', 'tron/account-resource')
    // Of the stake, 990 TRX are for bandwidth, 999,900 for energy and 100 more are lent; 10 are unstaked and not back.
    const staked = 1_001_000_000_000n
    expect(await node.account(zion)).toEqual({balance: 24_998_996_920_069_730n, staked, isContract: false})
    expect(await node.isFree(zion, 43_200_000_000n - 14_105_352_478n)).toBe(true) // staked for
    expect(await node.isFree(zion, 43_200_000_000n - 14_105_352_477n)).toBe(false)
  })

  test('that were never paid are absent, and nothing is free', async () => {
    const node = await nodeOf('tron/account-none', 'tron/account-resource-none', 'tron/solid-transaction-none')
    expect(await node.account(stranger)).toBeUndefined()
    expect(await node.isFree(stranger, 1n)).toBe(false)
    expect(await node.hasSolid('00'.repeat(32))).toBe(false)
  })

  test('without stakes have what is free for the day', () => {
    const WithResource = z.object({resource: FreeBytes})
    expect(recorded('tron/trc20/delegate-energy', WithResource).resource).toEqual({daily: 4312n, staked: 0n})
    expect(recorded('tron/trc20-staked/delegate-energy', WithResource).resource).toEqual({daily: 5000n, staked: 0n})
  })
})

test('prices: a parameter without a value is 0', async () => {
  const prices = {byte: 1000n, energy: 210n, activation: 100_000n}
  expect(await (await nodeOf('tron/chain-parameters')).prices()).toEqual(prices)
  expect(recorded('tron/trc20/chain-parameters', Prices)).toEqual(prices)
  expect(recorded('tron/trc20-staked/chain-parameters', Prices)).toEqual(prices)
})

describe('a transaction that was broadcast', () => {
  const Sent = z.object({
    request: z.object({body: z.object({transaction: z.string()})}),
    response: z.object({txid: z.string()}),
  })

  test.each<[string, string | undefined]>([
    ['tron/broadcast-success', undefined],
    ['tron/broadcast-duplicate', undefined],
    ['tron/broadcast-duplicate-mined', undefined],
    [
      'tron/broadcast-balance-not-sufficient',
      'CONTRACT_VALIDATE_ERROR: Contract validate error : Validate TransferContract error, balance is not sufficient.',
    ],
    ['tron/broadcast-expired', 'TRANSACTION_EXPIRATION_ERROR: Transaction expired'],
    [
      'tron/broadcast-to-contract',
      'CONTRACT_VALIDATE_ERROR: Contract validate error : Cannot transfer TRX to a smartContract.',
    ],
    ['tron/broadcast-wrong-reference', 'TAPOS_ERROR: Tapos check error.'],
    [
      'tron/broadcast-wrong-signature',
      'SIGERROR: Validate signature error: java.lang.IllegalArgumentException: Invalid point compression',
    ],
  ])('(%s) was taken, or the node says why not: %s', async (name, error) => {
    const {request, response} = recorded(name, Sent)
    const {transaction} = request.body
    expect(await (await nodeOf(name)).broadcast(transaction)).toBe(error)
    const {txid, signatures} = parseTransaction(Buffer.from(transaction, 'hex'))
    expect([txid, signatures.length]).toEqual([response.txid, 1])
  })

  test('and is none, is an error of the request', async () => {
    const node = await nodeOf('tron/broadcast-garbage')
    await expect(node.broadcast('zz')).rejects.toThrow('refused wallet/broadcasthex: class org.bouncycastle')
  })
})

describe('a token', () => {
  const Created = z.object({bytecode: z.string(), deployInfo: Info})
  const Shown = z.object({smart_contract: z.object({bytecode: z.string(), contract_address: z.string()})})

  test.each([
    ['tron/trc20/contract', 'tron/trc20/contract-info', 98_245_770n],
    ['tron/trc20-staked/contract', 'tron/trc20-staked/contract-info', 0n],
  ])('(%s) is at the address that its creation names (%s)', (created, shown, fee) => {
    const {bytecode, deployInfo} = recorded(created, Created)
    const {smart_contract: contract} = recorded(shown, Shown)
    expect(deployInfo).toMatchObject({fee, hasFailed: false, internals: [], logs: []})
    expect([addressOf(deployInfo.contract), bytecode]).toEqual([text(contract.contract_address), contract.bytecode])
  })

  test('answers a call of an address without an account, which is in no block', () => {
    const Constant = z.object({transaction: z.object({txID: z.string(), raw_data_hex: z.string()}).loose()})
    const {transaction} = recorded('tron/trc20/constant-call-of-address-without-account', Constant)
    const {response} = recorded('tron/header', z.object({response: z.looseObject({})}))
    const block = Block.parse({...response, transactions: [transaction]})
    expect(block.transactions[0]).toMatchObject({txid: transaction.txID, signatures: [], result: 'DEFAULT'})
    expect(txTrieRoot(block.transactions)).not.toBe(block.txTrieRoot)
  })

  const Trial = z.object({constant: Tried})

  test.each<[string, bigint, number]>([
    ['transfer-to-new-holder', 28_317n, 5_000_000],
    ['transfer-to-holder', 13_317n, 5_000_000],
    ['sweep-whole-balance', 13_317n, 10_000_000],
    ['transfer-with-token-fee', 35_481n, 999_000],
  ])('is tried (%s): it would use %s energy, and its log says what would arrive', (name, energy, arrives) => {
    const {constant} = recorded(`tron/trc20/${name}`, Trial)
    expect(constant).toMatchObject({failure: undefined, energy})
    const [log] = constant.logs
    const {contract, to} = transferIn(log!)!
    expect(movedTo(constant.logs, contract, addressOf(to))).toBe(BigInt(arrives))
    expect(constant.returned).toEqual(Buffer.alloc(32)) // it says false although it would succeed
  })

  test.each<[string, bigint]>([
    ['more-than-balance', 1029n],
    ['sweep-blacklisted', 580n],
  ])('is tried in vain (%s): a node says that the question succeeded, and the call would not', (name, energy) => {
    const failure = {words: 'REVERT opcode executed', isSure: true, ranOutOfTime: false}
    expect(recorded(`tron/trc20/${name}`, Trial).constant).toMatchObject({failure, energy, logs: []})
  })

  test('that is tried without an account is tried as with one', () => {
    const tried = recorded('tron/trc20/constant-call-of-address-without-account', Tried)
    expect(tried).toMatchObject({failure: undefined, energy: 13_317n})
  })

  test('that is tried by a node without time for it is not blamed', () => {
    const {response} = recorded('tron/constant-call-out-of-time', z.object({response: Tried}))
    expect(response).toMatchObject({failure: {isSure: false, ranOutOfTime: true}})
  })

  test('has code, by which it is known again', () => {
    expect(recorded('tron/trc20/contract-info', ContractInfo)).toMatchObject({
      code: {length: 1731},
      creator: zion,
    })
  })
})
