// What blocks of geth say about addresses (test/recorded/README.md), as both stages fetch them: without call traces
// (catch-up.ts) and with geth's own (evm-processor). Every root agrees; deposits and fees are those that the recordings
// show.
import {afterEach, describe, expect, test} from 'vitest'
import {z} from 'zod'
import {silent} from '../../base/log.ts'
import {openRpc} from '../../chains/evm/client.ts'
import {evmSettings} from '../../chains/evm/settings.ts'
import {settingsFrom} from '../../chains/settings.ts'
import {recorded} from '../../test/support/recorded.ts'
import {RpcProxy} from '../../test/support/rpc-proxy.ts'
import type {ReadBlock} from '../block.ts'
import {nobody} from './block.ts'
import {fetchRange} from './catch-up.ts'
import {Node} from './node.ts'
import {readBlock, readTraced} from './processor.ts'
import {viewOf} from './view.ts'

const Recording = z.object({
  block: z.looseObject({
    number: z.string(),
    hash: z.string(),
    transactions: z.array(z.looseObject({hash: z.string()})),
  }),
  receipts: z.array(z.unknown()),
  traces: z.array(z.unknown()),
})
type Recording = z.infer<typeof Recording>

type Answer = (which?: unknown, isWhole?: unknown) => unknown

/** What a node responds that has this block alone. */
function answers({block, receipts, traces}: Recording): Record<string, Answer> {
  const names = [block.number, block.hash, 'latest', 'finalized']
  const shown: Answer = (which, isWhole) => {
    if (which === '0x0') return {...block, number: which, transactions: []} // the processor wants its hash, to know the main network by
    if (!names.includes(String(which))) return null
    return isWhole ? block : {...block, transactions: block.transactions.map(({hash}) => hash)}
  }
  return {
    eth_chainId: () => '0x539',
    eth_blockNumber: () => block.number,
    eth_getBlockByNumber: shown,
    eth_getBlockByHash: shown,
    eth_getBlockReceipts: which => shown(which) && receipts,
    debug_traceBlockByHash: which => shown(which) && traces,
  }
}

let proxy: RpcProxy | undefined
afterEach(async () => {
  await proxy?.close()
  proxy = undefined
})

async function settingsOf(recording: Recording, traces: 'off' | 'debug') {
  const known = answers(recording)
  proxy = await RpcProxy.start({
    async call(method, params: unknown[] = []) {
      if (!known[method]) throw Object.assign(new Error(`the method ${method} does not exist`), {code: -32_601})
      return known[method](...params)
    },
  })
  const named = {ETH_RPC_URL: proxy.httpUrl, ETH_CHAIN_ID: '1337', ETH_TRACES: traces}
  return evmSettings(settingsFrom('ETH', named))
}

async function read(name: string, traces: 'off' | 'debug'): Promise<ReadBlock> {
  const recording = recorded(name, Recording)
  const settings = await settingsOf(recording, traces)
  const height = Number(recording.block.number)
  if (traces === 'debug') {
    for await (const [block] of readTraced(settings, {from: height, to: height}, silent())) return block!
  } else {
    const client = openRpc(settings.rpcUrl!, {timeoutMs: 2000})
    try {
      for await (const [block] of fetchRange(client, height, height)) return readBlock(block!, settings)
    } finally {
      client.close()
    }
  }
  throw new Error('no block was read')
}

const miner = '0x71562b71999873db5b286df957af199ec94617f7'
const validator = '0x344eec9999838929d75db1f1f103a610bcbafcea'
const gwei = 10n ** 9n
type Moved = [outputIndex: number, amount: bigint, sender: string, recipientKey: string]
const coins = (...moved: Moved) => moved
const tip = (gasUsed: bigint) => coins(2_000_000, gasUsed * gwei, nobody, miner)

interface Expected {
  hash: string
  moved: Moved[]
  /** What only call traces show. */
  inside?: Moved[]
  sent: unknown[]
}

const blocks: [string, Expected][] = [
  [
    'ethereum/block-blob',
    {
      hash: '0x6bc6db5bbfd9f08ad455d6debaa9116edfec637a0e9860900387f238dd9257d2',
      moved: [
        coins(0, 1n, '0x9ef6c02fb2ecc446146e05f1ff687a788a8bf76d', '0x3919a36fdd88df1822488702354cec98e24b519b'),
        tip(21_000n),
      ],
      sent: [['0x9ef6c02fb2ecc446146e05f1ff687a788a8bf76d', 8, true, 21_000n * 1_000_000_007n]], // what blobs cost is apart; we send none
    },
  ],
  [
    'ethereum/block-create',
    {
      hash: '0x8f49ed7fb85511249164dd223a632be40575c9e3759da446270786075c911ff6',
      moved: [tip(1_086_506n)],
      sent: [['0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266', 0, true, 1_086_506n * 1_000_000_030n]],
    },
  ],
  [
    'ethereum/block-setcode',
    {
      hash: '0xe6fc9173d4ed2fac17c629ab04593fca8ee776efd70d04a9adfb5e35e4d312ed',
      moved: [
        coins(
          0,
          456_626_239_096_725_174n,
          '0xdd2fd4581271e230360230f9337d5c0430bf44c0',
          '0x09c1e3f7d9b6070eeb26ac74df33cce0c5d858f5',
        ),
        tip(47_091n),
      ],
      inside: [
        coins(
          1_000_001,
          456_626_239_096_725_174n,
          '0x09c1e3f7d9b6070eeb26ac74df33cce0c5d858f5',
          '0xeb2a6745ee037eaa893db242acd5f352487bc500',
        ),
      ],
      sent: [['0xdd2fd4581271e230360230f9337d5c0430bf44c0', 11, true, 47_091n * 1_000_000_007n]],
    },
  ],
  [
    'ethereum/block-withdrawals',
    {
      hash: '0xa6ecff2718b3989dd95f4b5a897b4e90fbe21ca699de0597e6dcd6b9a15ab96a',
      moved: [coins(3_000_000, 125_000_000n * gwei, nobody, validator), coins(3_000_001, gwei, nobody, validator)],
      sent: [],
    },
  ],
]

describe.each(['off', 'debug'] as const)('with traces %s', traces => {
  test.each(blocks)('%s has the roots in its header, and moves what it shows', async (name, expected) => {
    const {hash, candidates, sent} = await read(name, traces)
    expect(hash).toBe(expected.hash)
    const moved = candidates.map(({outputIndex, amount, sender, recipientKey}): Moved => {
      return [outputIndex, amount, sender, recipientKey]
    })
    const inside = traces === 'debug' ? (expected.inside ?? []) : []
    const byPosition = ([a]: Moved, [b]: Moved) => a - b
    expect(moved.toSorted(byPosition)).toEqual([...expected.moved, ...inside].toSorted(byPosition))
    expect(candidates.every(({token}) => token === 'ETH')).toBe(true)
    expect(sent.map(one => [one.senderKey, one.nonce, one.executed, one.fee])).toEqual(expected.sent)
  })

  // EIP-7708: the system address logs what transactions move, so that each payment of ether has a log, too.
  test('ethereum/block-amsterdam-eip7708 has each payment once, under the rules of Amsterdam', async () => {
    const {candidates, sent} = await read('ethereum/block-amsterdam-eip7708', traces)
    const token = '0x880ec53af800b5cd051531672ef4fc4de233bd5d'
    const users = ['40e37a702172a3ffb928c91e9588e6bd8a40b45a', 'c0e465a36cbeab32a06ef7a50bebb714ff12fa81']
    const recipients = [...users, 'e2beef2d82c17434fcdc4440d52749346b6f5584'].map(user => `0x${user}`)
    const moved = (of: string) =>
      candidates
        .filter(one => one.token === of && one.outputIndex < 2_000_000)
        .map(one => [one.outputIndex, one.amount, one.recipientKey])
    expect(moved('ETH')).toEqual(recipients.map(recipient => [0, 4n * 10n ** 17n, recipient]))
    expect(moved(token)).toEqual(recipients.map(recipient => [1, 7_000_000n, recipient]))
    expect(candidates.find(({outputIndex}) => outputIndex === 2_000_000)).toMatchObject({
      amount: 2_266_494_000_000_000n, // what the receipts say was paid above the base fee
      recipientKey: miner,
    })
    expect(candidates).toHaveLength(7)
    expect(sent.map(({fee}) => fee / 2_000_000_007n)).toEqual([
      204_600n,
      238_429n,
      204_600n,
      140_509n,
      204_600n,
      140_509n,
    ])
  })

  test('a node with all of a block lacks nothing of it', async () => {
    const recording = recorded('ethereum/block-setcode', Recording)
    const settings = await settingsOf(recording, traces)
    const node = new Node(settings.rpcUrl!, 'ETH')
    const {network, finalBlock, lacks} = viewOf(node, settings)
    expect(await network()).toBe('eip155:1337')
    expect(await finalBlock()).toMatchObject({height: 268, hash: recording.block.hash})
    expect(await lacks(268)).toBeUndefined()
    node.close()
  })
})
