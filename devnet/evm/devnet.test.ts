// Local chains on the real anvil: data that a client has seen survives any kill, and reorganisations have the requested
// effect.
import type {ChildProcess} from 'node:child_process'
import {once} from 'node:events'
import {mkdtemp, readFile, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {type Abi, encodeFunctionData, erc20Abi, type Hex, hexToBigInt, numberToHex, pad, parseSignature} from 'viem'
import {privateKeyToAccount} from 'viem/accounts'
import {afterEach, beforeEach, expect, test} from 'vitest'
import {z} from 'zod'
import {commandLine} from '../../base/process.ts'
import {refusedToken} from '../../chains/evm/check-tokens.ts'
import {evmSettings} from '../../chains/evm/settings.ts'
import {readSettings} from '../../chains/settings.ts'
import {pidIn} from '../../test/support/processes.ts'
import {until} from '../../test/support/until.ts'
import {Random} from '../../test/torture/random.ts'
import {type Started, startDevnet} from '../start.ts'
import type {EvmClient} from './client.ts'
import {chainIds, faucet, multisendAddress, usdcAddress} from './constants.ts'
import contracts from './contracts.json' with {type: 'json'}
import {evm} from './family.ts'
import {Journal} from './journal.ts'
import {tokens} from './tokens.ts'

const Block = z.looseObject({
  number: z.string().transform(Number),
  hash: z.string(),
  parentHash: z.string(),
  transactions: z.array(z.unknown()),
})
const callTracer = {tracer: 'callTracer', tracerConfig: {onlyTopCall: false, withLog: false}}
const alice = address(0xa11ce)
const bob = address(0xb0b)

let dir: string
let started: Started<EvmClient>[]

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'sluice-devnet-'))
  started = []
})

afterEach(async () => {
  await Promise.all(started.map(devnet => devnet.stop()))
  await rm(dir, {recursive: true, force: true})
})

async function start(options: {blockIntervalMs?: number} = {}): Promise<Started<EvmClient>> {
  const devnet = await startDevnet(evm, {chain: 'ETH', dir, ...options})
  started.push(devnet)
  return devnet
}

function address(n: number): Hex {
  return pad(numberToHex(n), {size: 20})
}

async function block(client: EvmClient, at: number | string) {
  return Block.parse(await client.rpc('eth_getBlockByNumber', [typeof at === 'number' ? numberToHex(at) : at, true]))
}

/** Everything that a client can learn of the chain, from block 0 to the head; each request is a batch. */
async function wholeChain(client: EvmClient): Promise<unknown[]> {
  const {height} = await client.head()
  const numbers = Array.from({length: height + 1}, (_, n) => numberToHex(n))
  const blocks = await batch(numbers.map(number => ['eth_getBlockByNumber', [number, true]]))
  const rest = await Promise.all([
    batch(numbers.map(number => ['eth_getBlockReceipts', [number]])),
    batch(blocks.map(block => ['debug_traceBlockByHash', [Block.parse(block).hash, callTracer]])),
    batch(numbers.map(number => ['trace_block', [number]])),
  ])
  return blocks.map((block, n) => [block, ...rest.map(list => list[n])])

  async function batch(calls: [method: string, params: unknown[]][]): Promise<unknown[]> {
    const response = await fetch(client.url, {
      method: 'POST',
      body: JSON.stringify(calls.map(([method, params], id) => ({jsonrpc: '2.0', id, method, params}))),
    })
    return z
      .array(z.object({result: z.unknown()}))
      .parse(await response.json())
      .map(({result}) => result)
  }
}

async function balance(client: EvmClient, of: Hex): Promise<bigint> {
  return hexToBigInt((await client.rpc('eth_getBalance', [of, 'latest'])) as Hex)
}

async function usdcBalance(client: EvmClient, of: Hex): Promise<bigint> {
  const data = encodeFunctionData({abi: erc20Abi, functionName: 'balanceOf', args: [of]})
  return hexToBigInt((await client.rpc('eth_call', [{to: usdcAddress, data}, 'latest'])) as Hex)
}

async function anvilPid(): Promise<number> {
  return await pidIn(path.join(dir, 'anvil.pid'))
}

async function killProcess(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/** Blocks of all kinds: empty ones, payments, internal calls, reorganisations, more than the engine keeps states of. */
async function play(client: EvmClient): Promise<void> {
  await client.send({token: 'ETH', to: alice, amount: '1.5'})
  await client.transact(
    client.multisend(
      'pay',
      [
        [alice, bob],
        [1n, 2n],
      ],
      3n,
    ),
  )
  await client.transact(client.multisend('payBySelfdestruct', [bob], 4n))
  await client.transact({to: usdcAddress, data: '0xdeadbeef', gas: 100_000n}) // fails
  await client.mine(20)
  await client.send({token: 'USDC', to: bob, amount: '12.34'})
  await client.reorg(3, {keepTransactions: true})
  await client.mine(260) // there is a snapshot below, and old states are gone
  await client.send({token: 'USDC', to: alice, amount: '0.000001'})
  await client.reorg(2)
  await client.send({token: 'USDC', to: alice, amount: '3'})
}

test('after each kind of death the same chain returns, from block 1 on, and continues', async () => {
  const first = await start()
  await play(first.client)
  const chain = await wholeChain(first.client)
  const port = new URL(first.devnet.url).port
  expect(chain.length).toBeGreaterThan(280)

  const comesBack = async ({client, devnet}: Started<EvmClient>, how: string) => {
    expect(new URL(devnet.url).port, how).toBe(port)
    expect((await wholeChain(client)).slice(0, chain.length), how).toEqual(chain)
    await client.send({token: 'USDC', to: address(0xca401), amount: '1'})
    expect(await usdcBalance(client, alice), how).toBe(3_000_000n)
  }

  process.kill(await anvilPid(), 'SIGKILL')
  await comesBack(first, 'after kill -9 of anvil')

  await killProcess(first.process)
  const leftOver = await anvilPid()
  expect(await commandLine(leftOver)).toContain('anvil')
  const second = await start()
  expect(await commandLine(leftOver)).toBeUndefined()
  await comesBack(second, 'after kill -9 of the process')

  process.kill(await anvilPid(), 'SIGKILL')
  await killProcess(second.process)
  const third = await start()
  await comesBack(third, 'after kill -9 of both')

  await third.stop()
  await expect(readFile(path.join(dir, 'devnet.json'))).rejects.toThrow(/ENOENT/)
  expect(await commandLine(await anvilPid())).toBeUndefined()
  const fourth = await start()
  await comesBack(fourth, 'after SIGTERM')
  expect(await usdcBalance(fourth.client, address(0xca401))).toBe(4_000_000n)
})

test('no block that a client saw ever changes while anvil and the process are killed at random moments', async () => {
  const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
  console.log(`SEED=${seed}`)
  const random = new Random(seed)
  const seen = new Map<number, string>()
  let finalSoFar = 0
  let devnet = await start({blockIntervalMs: 20})
  for (let kill = 0; kill < 8; kill++) {
    const before = (await devnet.client.head()).height
    const more = before + Math.floor(random.next() * 12) + 1
    await until(
      async () => {
        const {height, hash} = await devnet.client.head()
        seen.set(height, hash)
        finalSoFar = Math.max(finalSoFar, (await block(devnet.client, 'finalized')).number)
        return height >= more
      },
      {timeoutMs: 10_000, what: `block ${more}`, intervalMs: 5},
    )
    const victim = random.next()
    if (victim < 0.7) process.kill(await anvilPid(), 'SIGKILL')
    if (victim > 0.4) {
      await killProcess(devnet.process)
      devnet = await start({blockIntervalMs: 20})
    }
  }
  await until(async () => (await devnet.client.head()).height > finalSoFar + 8, {
    timeoutMs: 10_000,
    what: 'more blocks',
  })
  for (const [height, hash] of seen) expect((await block(devnet.client, height)).hash).toBe(hash)
})

test('an unconfirmed transaction is still mined after everything was killed', async () => {
  const first = await start()
  const txid = await first.client.transfer({token: 'ETH', to: alice, amount: '2'})
  process.kill(await anvilPid(), 'SIGKILL')
  await killProcess(first.process)
  const {client} = await start()
  expect(await client.rpc('eth_getTransactionReceipt', [txid])).toBeNull()
  expect(await client.mined(txid)).toMatchObject({status: '0x1'})
  expect(await balance(client, alice)).toBe(2n * 10n ** 18n)
})

test('a forgotten transaction is not mined, even after anvil was killed', async () => {
  const {client} = await start()
  const txid = await client.transfer({token: 'ETH', to: alice, amount: '2'})
  await client.forget([txid])
  process.kill(await anvilPid(), 'SIGKILL')
  await client.mine()
  expect(await client.rpc('eth_getTransactionByHash', [txid])).toBeNull()
  expect(await client.balance('ETH', alice)).toBe(0n)
})

test('the chain has its id, its contracts in block 1, and its final block 8 below the head', async () => {
  const {client, devnet} = await start()
  const {identity} = devnet
  expect(devnet).toMatchObject({chain: 'ETH', node: 'anvil'})
  expect(identity).toMatchObject({ETH_CHAIN_ID: String(chainIds.ETH), ETH_USDC_CONTRACT: usdcAddress})
  expect(await client.rpc('eth_chainId')).toBe(numberToHex(chainIds.ETH))
  expect((await block(client, 'finalized')).number).toBe(0)
  const receipts = z
    .array(z.object({contractAddress: z.string()}))
    .parse(await client.rpc('eth_getBlockReceipts', ['0x1']))
  const [usdc, ...others] = tokens.map(({contract}) => contract)
  expect(receipts.map(receipt => receipt.contractAddress)).toEqual(
    [usdc!, multisendAddress, ...others].map(contract => contract.toLowerCase()),
  )
  await client.mine(19)
  const heights = ['latest', 'safe', 'finalized', 'earliest'].map(async tag => (await block(client, tag)).number)
  expect(await Promise.all(heights)).toEqual([20, 16, 12, 0])
})

test('a setting of the service names a token of each chain, and its contract matches', async () => {
  for (const [chain, token] of [
    ['ETH', 'EURC'],
    ['POLYGON', 'JPYC'],
  ] as const) {
    const devnet = await startDevnet(evm, {chain, dir: path.join(dir, chain)})
    started.push(devnet)
    const {identity, source} = devnet.devnet
    const settings = evmSettings(readSettings({...identity, ...source}).chains.get(chain))
    expect([...settings.tokens.values()]).toEqual(['USDC', token, 'USDT'])
    expect(await refusedToken(settings)).toBeUndefined()
    await devnet.client.send({token, to: alice, amount: '123456789012.000001'})
    const {decimals} = devnet.client.asset(token)
    expect(await devnet.client.balance(token, alice)).toBe(123_456_789_012_000_001n * 10n ** BigInt(decimals - 6))
  }
})

test('a chain that began when USDC was the only token continues without the others', async () => {
  const {client, stop} = await start()
  await client.mine(2) // block 1 is there
  const {hash} = await client.head()
  await stop()
  const journal = new Journal(path.join(dir, 'chain.sqlite'), 'ETH')
  const [first, ...above] = [1, 2, 3].map(height => journal.block(height)!)
  journal.commit([{...first!, receipts: first!.receipts.slice(0, 2)}, ...above]) // as that chain's block has them
  journal.close()
  const {client: again, devnet} = await start()
  expect(devnet.identity).toMatchObject({ETH_USDC_CONTRACT: usdcAddress, ETH_TOKENS: '[]'})
  expect(await again.head()).toMatchObject({hash})
})

test('a reorganisation without its transactions undoes them, and sending still works', async () => {
  const {client} = await start()
  await client.send({token: 'USDC', to: alice, amount: '5'})
  const gone = await client.send({token: 'USDC', to: bob, amount: '7'})
  await client.mine(2)
  const old = await client.head()
  const head = await client.reorg(3)
  expect(head.height).toBe(old.height + 1)
  expect((await block(client, old.height)).hash).not.toBe(old.hash)
  expect(await client.rpc('eth_getBlockByHash', [old.hash, false])).toBeNull()
  expect(await client.rpc('eth_getTransactionReceipt', [gone])).toBeNull()
  expect(await client.rpc('eth_getTransactionByHash', [gone])).toBeNull()
  expect([await usdcBalance(client, alice), await usdcBalance(client, bob)]).toEqual([5_000_000n, 0n])
  await client.send({token: 'USDC', to: bob, amount: '1'})
  expect(await usdcBalance(client, bob)).toBe(1_000_000n)
})

test('a reorganisation that keeps transactions mines them again in later blocks', async () => {
  const {client} = await start()
  const txids = []
  for (const to of [alice, bob, alice]) txids.push(await client.send({token: 'ETH', to, amount: '1'}))
  const before = await Promise.all(txids.map(txid => client.mined(txid)))
  await client.reorg(3, {keepTransactions: true})
  const after = await Promise.all(txids.map(txid => client.mined(txid)))
  expect(after.map(receipt => receipt.blockNumber)).toEqual(before.map(receipt => receipt.blockNumber + 1))
  expect(await balance(client, alice)).toBe(2n * 10n ** 18n)
})

test('a reorganisation down to genesis keeps the contracts; a deeper one is refused', async () => {
  const {client} = await start()
  await client.send({token: 'USDC', to: alice, amount: '5'})
  const {height} = await client.head()
  const first = (await block(client, 1)).hash
  await expect(client.reorg(height + 1)).rejects.toThrow('cannot replace 3 blocks: there are 2 blocks above genesis')
  await expect(client.reorg(0)).rejects.toThrow('cannot replace 0 blocks')
  await client.reorg(height)
  expect((await block(client, 1)).hash).not.toBe(first)
  await client.send({token: 'USDC', to: alice, amount: '6'})
  expect(await usdcBalance(client, alice)).toBe(6_000_000n)
})

test('a reorganisation below the states of the engine is made from a snapshot', async () => {
  const {client} = await start()
  const txid = await client.send({token: 'USDC', to: alice, amount: '5'})
  await client.mine(700)
  const {height, hash} = await client.head()
  const head = await client.reorg(350)
  expect(head.height).toBe(height + 1)
  expect((await block(client, height)).hash).not.toBe(hash)
  expect(await client.mined(txid)).toMatchObject({blockNumber: 2})
  expect(await usdcBalance(client, alice)).toBe(5_000_000n)
})

test('new heads arrive by websocket, also during reorganisations, each linked to the one before', async () => {
  const {client, devnet} = await start()
  await client.mine(3)
  const socket = new WebSocket(devnet.url)
  await new Promise(resolve => socket.addEventListener('open', resolve, {once: true}))
  const heads: {number: string; hash: string; parentHash: string}[] = []
  const subscribed = new Promise<string>(resolve => {
    socket.addEventListener('message', ({data}) => {
      const message = JSON.parse(String(data))
      if (message.id === 7) resolve(message.result)
      else heads.push(message.params.result)
    })
  })
  socket.send(JSON.stringify({jsonrpc: '2.0', id: 7, method: 'eth_subscribe', params: ['newHeads']}))
  await subscribed
  await client.mine(1)
  const fork = await block(client, 3)
  await client.reorg(2)
  await until(async () => heads.length >= 4, {timeoutMs: 5_000, what: 'four heads'})
  expect(heads.map(head => Number(head.number))).toEqual([5, 4, 5, 6])
  expect(heads[1]?.parentHash).toBe(fork.hash)
  expect(heads[2]?.parentHash).toBe(heads[1]?.hash)
  expect(heads[3]).toMatchObject({parentHash: heads[2]?.hash, hash: (await client.head()).hash})
  socket.close()
})

test('the devnet mines automatically, and continues after anvil was killed', async () => {
  const {client} = await start({blockIntervalMs: 100})
  const grows = async (by: number) => {
    const {height} = await client.head()
    await until(async () => (await client.head()).height >= height + by, {timeoutMs: 20_000, what: `${by} blocks`})
  }
  await grows(3)
  await client.send({token: 'ETH', to: alice, amount: '1'})
  process.kill(await anvilPid(), 'SIGKILL')
  await grows(3)
  expect(await balance(client, alice)).toBe(10n ** 18n)
})

test('a second process for the same directory names the endpoint of the first, and one for another chain fails', async () => {
  const {devnet} = await start()
  const second = await startDevnet(evm, {chain: 'ETH', dir})
  await until(async () => second.process.exitCode === 0, {timeoutMs: 5_000, what: 'the second process to end'})
  expect(second.devnet).toEqual(devnet)
  await expect(startDevnet(evm, {chain: 'POLYGON', dir})).rejects.toThrow(
    'holds the local chain of ETH, not of POLYGON',
  )
  await started[0]?.stop()
  await expect(startDevnet(evm, {chain: 'POLYGON', dir})).rejects.toThrow(
    'holds the local chain of ETH, not of POLYGON',
  )
})

test('value moves inside transactions as the traces show, and not where it was reverted', async () => {
  const {client} = await start()
  await client.mined(
    await client.transact(
      client.multisend(
        'pay',
        [
          [alice, bob, alice],
          [1n, 2n, 3n],
        ],
        6n,
      ),
    ),
  )
  await client.mined(await client.transact(client.multisend('payBySelfdestruct', [bob], 4n)))
  const reverted = await client.mined(await client.transact(client.multisend('payAndRevertInside', [alice], 5n)))
  expect(reverted.status).toBe('0x1')
  expect([await balance(client, alice), await balance(client, bob)]).toEqual([4n, 6n])
  expect(await balance(client, multisendAddress)).toBe(0n)
  const traces = JSON.stringify(await client.rpc('trace_block', [numberToHex(reverted.blockNumber)]))
  expect(traces).toContain(alice)

  const allow = encodeFunctionData({abi: erc20Abi, functionName: 'approve', args: [multisendAddress, 30n]})
  await client.mined(await client.transact({to: usdcAddress, data: allow}))
  await client.mined(await client.transact(client.multisend('payTokens', [usdcAddress, [alice, bob], [10n, 20n]])))
  expect([await usdcBalance(client, alice), await usdcBalance(client, bob)]).toEqual([10n, 20n])
  const logs = await client.rpc('eth_getLogs', [{fromBlock: '0x2', toBlock: 'latest', address: usdcAddress}])
  expect(logs).toHaveLength(3) // an approval, two transfers
})

test('USDC moves once by an authorisation (EIP-3009), and by a permit (EIP-2612)', async () => {
  const {client} = await start()
  const owner = privateKeyToAccount(pad('0x1', {size: 32}))
  await client.send({token: 'USDC', to: owner.address, amount: '10'})
  const abi = contracts.TestToken.abi as Abi
  const domain = {name: 'USDC', version: '2', chainId: chainIds.ETH, verifyingContract: usdcAddress}
  const call = async (functionName: string, args: unknown[]) => {
    const data = encodeFunctionData({abi, functionName, args})
    return await client.mined(await client.transact({to: usdcAddress, data, gas: 200_000n}))
  }

  const transfer = {
    from: owner.address,
    to: alice,
    value: 4_000_000n,
    validAfter: 0n,
    validBefore: 2n ** 40n,
    nonce: pad('0x7', {size: 32}),
  }
  const fields = [
    'from address',
    'to address',
    'value uint256',
    'validAfter uint256',
    'validBefore uint256',
    'nonce bytes32',
  ]
  const authorisation = await signed('TransferWithAuthorization', fields, transfer)
  const args = [...Object.values(transfer), ...authorisation]
  expect(await call('transferWithAuthorization', args)).toMatchObject({status: '0x1'})
  expect(await call('transferWithAuthorization', args)).toMatchObject({status: '0x0'})
  expect(await usdcBalance(client, alice)).toBe(4_000_000n)

  const permit = {owner: owner.address, spender: faucet.address, value: 6_000_000n, nonce: 0n, deadline: 2n ** 40n}
  const permitFields = ['owner address', 'spender address', 'value uint256', 'nonce uint256', 'deadline uint256']
  const signature = await signed('Permit', permitFields, permit)
  const {owner: from, spender, value, deadline} = permit
  expect(await call('permit', [from, spender, value + 1n, deadline, ...signature])).toMatchObject({status: '0x0'})
  expect(await call('permit', [from, spender, value, deadline, ...signature])).toMatchObject({status: '0x1'})
  expect(await call('transferFrom', [from, bob, value])).toMatchObject({status: '0x1'})
  expect(await usdcBalance(client, bob)).toBe(6_000_000n)

  async function signed(primaryType: string, fields: string[], message: Record<string, unknown>): Promise<unknown[]> {
    const types = {[primaryType]: fields.map(field => field.split(' ')).map(([name = '', type = '']) => ({name, type}))}
    const {r, s, v} = parseSignature(await owner.signTypedData({domain, types, primaryType, message}))
    return [v, r, s]
  }
})

test('a forbidden or invalid request gets an error, and changes nothing', async () => {
  const {client, devnet} = await start()
  const {hash} = await client.head()
  await expect(client.rpc('anvil_setBalance', [alice, '0x1'])).rejects.toThrow('does not serve anvil_setBalance')
  await expect(client.rpc('evm_mine')).rejects.toThrow('does not serve evm_mine')
  await expect(client.rpc('eth_sendRawTransaction', ['0x1234'])).rejects.toThrow()
  await expect(client.rpc('eth_getBlockByNumber', ['soon', false])).rejects.toThrow()
  await expect(client.rpc('debug_traceBlockByHash', [hash, {tracer: 'prestateTracer'}])).rejects.toThrow(
    'only callTracer',
  )
  await expect(client.rpc('eth_sendTransaction', [{from: alice, to: bob}])).rejects.toThrow('has no key for')
  await expect(client.mine(10_001)).rejects.toThrow('cannot mine 10001 blocks at once')
  await expect(client.send({token: 'USDC', to: alice, amount: '1000000000001'})).rejects.toThrow('exceeds balance')
  const garbage = await fetch(devnet.control_url, {method: 'POST', body: '{'})
  expect(await garbage.json()).toMatchObject({error: {code: -32700}})
  expect((await client.head()).hash).toBe(hash)
})
