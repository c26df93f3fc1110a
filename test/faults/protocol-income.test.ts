// Block fees and validator withdrawals to addresses of ours: a real indexer sees them at the head and while it catches
// up, stores them uncredited, and the books equal the chain.
import {numberToHex} from 'viem'
import {expect, test} from 'vitest'
import {orderedTrieRoot} from '../../indexers/evm/trie.ts'
import {encodedWithdrawals} from '../../indexers/evm/verify-block.ts'
import {CommandLine} from '../support/command-line.ts'
import {IndexedEvm} from '../support/evm/indexed-world.ts'
import {depositsOf} from '../support/indexer.ts'
import type {Block} from '../support/rpc-proxy.ts'

const gwei = 10n ** 9n
const stranger = `0x${'77'.repeat(20)}`

interface Paid {
  address: string
  gwei: bigint
}

/**
 * Anvil makes no withdrawals. The proxy adds them to blocks for the indexer, with their root, and the test adds the
 * money to the addresses.
 */
class Withdrawals {
  readonly #world: IndexedEvm
  readonly #blocks = new Map<string, {withdrawals: object[]; withdrawalsRoot: string}>()

  constructor(world: IndexedEvm) {
    this.#world = world
    world.node.behave = async ({method}, pass) => {
      const response = await pass()
      const added = method.startsWith('eth_getBlockBy') && this.#blocks.get((response as Block | null)?.hash ?? '')
      return added ? {...(response as Block), ...added} : response
    }
  }

  /** Must be called before the node shows the block, which is not mined yet. Resolves to the block. */
  async mine(paid: Paid[]): Promise<{height: number; hash: string}> {
    const {anvil} = this.#world
    for (const {address, gwei: amount} of paid) {
      const held = await anvil.balance(address)
      await anvil.call('anvil_setBalance', [address, numberToHex(held + amount * gwei)])
    }
    const withdrawals = paid.map((one, i) => ({...one, index: BigInt(i), validatorIndex: 5n}))
    const told = withdrawals.map(({index, validatorIndex, address, gwei: amount}) => {
      const hex = {index: numberToHex(index), validatorIndex: numberToHex(validatorIndex)}
      return {...hex, address: address.toLowerCase(), amount: numberToHex(amount)}
    })
    const root = orderedTrieRoot(encodedWithdrawals({withdrawals}))
    // The hash of a block is known only when it is there, and then the indexer may have read it: so the block is held
    // back until then.
    const behave = this.#world.node.behave!
    let release = () => {}
    const mined = new Promise<void>(resolve => (release = resolve))
    this.#world.node.behave = async (call, pass) => {
      await mined
      return behave(call, pass)
    }
    const head = await anvil.mine()
    this.#blocks.set(head.hash, {withdrawals: told, withdrawalsRoot: `0x${root}`})
    this.#world.node.behave = behave
    release()
    return head
  }
}

test.for([
  ['at the head, with call traces', 'debug'],
  ['while catching up, without', 'off'],
] as const)(
  'what a block pays to an address of ours is recorded for nobody, and the books explain it: %s',
  async ([, traces], test) => {
    const world = await IndexedEvm.create(test, {
      transport: traces === 'off' ? 'http' : 'ws',
      settings: {TRACES: traces},
    })
    const {anvil, indexer, user, other, db} = world
    const withdrawals = new Withdrawals(world)
    const commandLine = new CommandLine(db, {
      ETH: {rpc_url: anvil.httpUrl, local: true, settings: {ETH_RPC_URL: anvil.httpUrl, ETH_USDC_CONTRACT: anvil.usdc}},
    })
    test.onTestFinished(() => commandLine.close())
    const isFollowed = traces === 'debug'
    if (isFollowed) {
      indexer.start()
      await world.mined(3)
    }

    // Fees: of a payment to that very address, of a token transfer, and of a failed transaction.
    await anvil.call('anvil_setCoinbase', [user.address])
    const paid = await anvil.send({to: user.address, value: 5n})
    await anvil.sendUsdc(stranger, 3n)
    await anvil.multi('payThenRevert', [stranger], 5n)
    const feeBlock = await anvil.mine()
    const fees = (await anvil.balance(user.address)) - 5n
    expect(fees).toBeGreaterThan(10n ** 13n)
    await anvil.call('anvil_setCoinbase', [stranger])

    const given = [
      {address: other.address, gwei: 32_000_000_000n},
      {address: stranger, gwei: 7n},
      {address: other.address, gwei: 1n},
    ]
    const withdrawalBlock = await withdrawals.mine(given)

    // A block that leaves the chain takes its fees along; its replacement pays another address.
    if (isFollowed) {
      await indexer.reaches(await anvil.mine())
      await anvil.call('anvil_setCoinbase', [user.address])
      await anvil.sendUsdc(stranger, 1n)
      const left = await anvil.mine()
      await indexer.reaches(left)
      expect(await depositsOf(db, left.hash)).toMatchObject([{output: 2_000_000, status: 'pending'}])
      await anvil.reorg(1)
      await world.mined(1)
      expect(await depositsOf(db, left.hash)).toMatchObject([{output: 2_000_000, status: 'reorged', events: ''}])
    } else {
      await anvil.mine(120)
      indexer.start()
    }
    const {height} = await anvil.block()
    await world.mined(10)
    await indexer.finalises(height)

    const none = {token: 'ETH', status: 'final', credited: false, events: ''}
    expect(await depositsOf(db, feeBlock.hash)).toMatchObject([
      {...none, output: 2_000_000, address: user.address, amount: `${fees}`, height: feeBlock.height},
    ])
    expect(await depositsOf(db, withdrawalBlock.hash)).toMatchObject([
      {...none, output: 3_000_000, address: other.address, amount: `${32_000_000_000n * gwei}`},
      {...none, output: 3_000_002, address: other.address, amount: `${gwei}`},
    ])
    expect(await depositsOf(db, paid)).toMatchObject([
      {output: 0, amount: '5', credited: true, events: 'pending confirmed'},
    ])

    const {unattributed} = await commandLine.json<{unattributed: Record<string, unknown>[]}>('unattributed', 'list')
    expect(unattributed.map(({reason, address}) => [reason, address])).toEqual([
      ['protocol', other.address],
      ['protocol', other.address],
      ['protocol', user.address],
    ])
    const {stdout} = await commandLine.sluice('audit', '--json')
    const {checks} = JSON.parse(stdout) as {checks: {name: string; count: number}[]}
    expect(checks.filter(({count}) => count > 0)).toEqual([])
    expect(checks.map(({name}) => name)).toContain('on_chain_eth')
  },
)
