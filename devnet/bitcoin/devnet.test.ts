// The local Bitcoin chain on each available node: data that a client has seen survives any kill; reorganisations have
// the requested effect; the Electrum server agrees with the node. What the node does not matter to is tested on bcoin,
// which npm start runs.
import type {ChildProcess} from 'node:child_process'
import {createHash} from 'node:crypto'
import {once} from 'node:events'
import {mkdtemp, readFile, rm} from 'node:fs/promises'
import {createConnection, type Socket} from 'node:net'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {createInterface} from 'node:readline'
import {setTimeout as sleep} from 'node:timers/promises'
import {address, Block, crypto, networks, Transaction} from 'bitcoinjs-lib'
import {afterEach, beforeEach, describe, expect, test} from 'vitest'
import {z} from 'zod'
import {commandLine} from '../../base/process.ts'
import {hasBitcoind} from '../../test/support/bitcoin/node.ts'
import {kill, pidIn} from '../../test/support/processes.ts'
import {until} from '../../test/support/until.ts'
import {Random} from '../../test/torture/random.ts'
import {killLeftover} from '../engine.ts'
import {families} from '../families.ts'
import {type Started, startDevnet} from '../start.ts'
import type {BitcoinClient} from './client.ts'
import {bitcoin} from './family.ts'
import type {NodeKind} from './node.ts'

const History = z.array(z.object({tx_hash: z.string(), height: z.int(), fee: z.int().optional()}))

let dir: string
let started: Started<BitcoinClient>[]
let sockets: Socket[]

beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), 'sluice-devnet-btc-'))
  started = []
  sockets = []
})

afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  await Promise.all(started.map(devnet => devnet.stop()))
  for (const name of ['bcoin', 'bitcoind']) await killLeftover(dir, {name, mark: dir})
  await rm(dir, {recursive: true, force: true})
})

async function start(node: NodeKind, blockIntervalMs = 0): Promise<Started<BitcoinClient>> {
  const devnet = await startDevnet(bitcoin, {chain: 'BTC', dir, node, blockIntervalMs})
  started.push(devnet)
  return devnet
}

async function killProcess(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

const nodePid = (node: NodeKind) => pidIn(path.join(dir, `${node}.pid`))

/** A P2WPKH address without a known key. */
function nobody(n: number): string {
  return address.toBech32(Buffer.from(String(n).padStart(40, '0'), 'hex'), 0, networks.regtest.bech32)
}

function scripthash(to: string): string {
  return createHash('sha256').update(address.toOutputScript(to, networks.regtest)).digest().reverse().toString('hex')
}

/** A small Electrum client; notifications are stored as they come. */
async function electrum(url: string) {
  const {hostname, port} = new URL(url)
  const socket = createConnection(Number(port), hostname)
  sockets.push(socket)
  await once(socket, 'connect')
  const waiting = new Map<number, (response: {result?: unknown; error?: {code: number; message: string}}) => void>()
  const notifications: {method: string; params: unknown[]}[] = []
  createInterface({input: socket})
    .on('error', () => {})
    .on('line', line => {
      const message = JSON.parse(line)
      if (message.method) notifications.push(message)
      else waiting.get(message.id)?.(message)
    })
  socket.on('error', () => {}) // its close follows
  socket.on('close', () => {
    for (const response of waiting.values()) response({error: {code: -1, message: 'the server is gone'}})
  })
  let last = 0
  const ask = async (method: string, ...params: unknown[]): Promise<unknown> => {
    const id = ++last
    if (socket.destroyed) throw new Error('-1: the server is gone')
    const response = new Promise<{result?: unknown; error?: {code: number; message: string}}>(resolve => {
      waiting.set(id, resolve)
    })
    socket.write(`${JSON.stringify({jsonrpc: '2.0', id, method, params})}\n`)
    const {result, error} = await response
    if (error) throw new Error(`${error.code}: ${error.message}`)
    return result
  }
  const history = async (to: string) =>
    History.parse(await ask('blockchain.scripthash.get_history', scripthash(to))).map(({tx_hash, height}) => [
      tx_hash,
      height,
    ])
  return {ask, history, notifications, socket}
}

async function rawBlocks(client: BitcoinClient): Promise<Buffer[]> {
  const {height} = await client.head()
  const blocks = []
  for (let at = 0; at <= height; at++) {
    const hash = await client.rpc('getblockhash', [at])
    blocks.push(Buffer.from(z.string().parse(await client.rpc('getblock', [hash, false])), 'hex'))
  }
  return blocks
}

/** Compares all Electrum data of these addresses, and of the last blocks, with the node's blocks and mempool. */
async function expectAgreement({client, devnet}: Started<BitcoinClient>, addresses: string[]): Promise<void> {
  const {ask, socket} = await electrum(devnet.url)
  const {height} = await client.head()
  expect(await client.rpc('getblockcount')).toBe(height)
  const first = Math.max(0, height - 20)
  const histories = new Map<string, [string, number][]>(addresses.map(to => [to, []]))
  const values = new Map<string, {to: string; value: bigint}>()
  const scan = (txid: string, outs: {script: Uint8Array; value: bigint}[], at: number) => {
    for (const to of addresses) {
      const script = address.toOutputScript(to, networks.regtest)
      const paid = outs.map((out, vout) => ({...out, vout})).filter(out => Buffer.compare(out.script, script) === 0)
      for (const {value, vout} of paid) values.set(`${txid}:${vout}`, {to, value})
      if (paid.length) histories.get(to)!.push([txid, at])
    }
  }
  for (let at = first; at <= height; at++) {
    const hash = await client.rpc('getblockhash', [at])
    const raw = Buffer.from(z.string().parse(await client.rpc('getblock', [hash, false])), 'hex')
    expect(await ask('blockchain.block.header', at)).toBe(raw.subarray(0, 80).toString('hex'))
    const rest = await fetch(`${devnet.control_url}/rest/block/${hash}.bin`)
    expect(Buffer.from(await rest.arrayBuffer()).equals(raw)).toBe(true)
    const block = Block.fromBuffer(raw)
    for (const [position, transaction] of block.transactions!.entries()) {
      const txid = transaction.getId()
      scan(txid, transaction.outs, at)
      expect(await ask('blockchain.transaction.get', txid)).toBe(transaction.toHex())
      expect(await ask('blockchain.transaction.id_from_pos', at, position)).toBe(txid)
      const proof = z
        .object({pos: z.int(), merkle: z.array(z.string())})
        .parse(await ask('blockchain.transaction.get_merkle', txid, at))
      expect(rootOf(txid, proof)).toEqual(Buffer.from(block.merkleRoot!))
    }
  }
  const waiting = await Promise.all(
    (await client.mempool()).map(async txid => Transaction.fromHex(await client.raw(txid))),
  )
  for (const to of addresses) {
    const told = History.parse(await ask('blockchain.scripthash.get_history', scripthash(to)))
    const mined = told.filter(({height}) => height > 0)
    expect(mined.map(({tx_hash, height}) => [tx_hash, height])).toEqual(histories.get(to))
    const script = address.toOutputScript(to, networks.regtest)
    const paying = waiting.filter(({outs}) => outs.some(out => Buffer.compare(out.script, script) === 0))
    const unconfirmed = told.filter(entry => !mined.includes(entry)).map(({tx_hash}) => tx_hash)
    expect(unconfirmed.sort()).toEqual(paying.map(transaction => transaction.getId()).sort())
    const {confirmed} = z
      .object({confirmed: z.int()})
      .parse(await ask('blockchain.scripthash.get_balance', scripthash(to)))
    const paid = [...values.values()].filter(output => output.to === to).reduce((sum, {value}) => sum + value, 0n)
    expect(BigInt(confirmed)).toBe(paid)
  }
  socket.destroy()
}

function rootOf(txid: string, {pos, merkle}: {pos: number; merkle: string[]}): Buffer {
  let hash = Buffer.from(txid, 'hex').reverse()
  merkle.forEach((sibling, level) => {
    const other = Buffer.from(sibling, 'hex').reverse()
    hash = Buffer.from(crypto.hash256(Buffer.concat((pos >> level) & 1 ? [other, hash] : [hash, other])))
  })
  return hash
}

describe.each<NodeKind>(['bcoin', 'bitcoind'])('on %s', node => {
  const onNode = test.skipIf(node === 'bitcoind' && !hasBitcoind)
  const onAny = (name: string, work: () => Promise<void>, limitMs?: number) => {
    if (node === 'bcoin') test(name, work, limitMs)
  }
  const [alice, bob, carol] = [nobody(1), nobody(2), nobody(3)]

  onNode(
    'after each kind of death the same chain and the same mempool return, and continue',
    async () => {
      const first = await start(node)
      const {client} = first
      await client.pay([{to: alice, amount: 1000n}])
      await client.mine(2)
      await client.pay([{to: bob, amount: 2000n}])
      await client.mine()
      await client.reorg(2, {transactions: 'later'})
      const parent = await client.pay([{to: client.info.faucet_address, amount: 5_000_000n}])
      const child = await client.pay([{to: carol, amount: 3000n}], {inputs: [`${parent.txid}:0`]})
      const replaced = await client.pay([{to: carol, amount: 4000n}])
      const replacement = await client.replace(replaced.txid)
      const chain = await rawBlocks(client)
      const waiting = [parent.txid, child.txid, replacement.txid].sort()
      expect((await client.mempool()).sort()).toEqual(waiting)

      const comesBack = async (devnet: Started<BitcoinClient>, how: string) => {
        expect({control_url: devnet.devnet.control_url, url: devnet.devnet.url}, how).toEqual({
          control_url: first.devnet.control_url,
          url: first.devnet.url,
        })
        expect((await client.mempool()).sort(), how).toEqual(waiting)
        expect(await rawBlocks(client), how).toEqual(chain)
        expect(await (await electrum(first.devnet.url)).history(carol), how).toHaveLength(2)
      }

      process.kill(await nodePid(node), 'SIGKILL')
      await comesBack(first, 'after kill -9 of the node')

      await killProcess(first.process)
      const leftOver = await nodePid(node)
      expect(await commandLine(leftOver)).toContain(dir)
      const second = await start(node)
      expect(await commandLine(leftOver)).toBeUndefined()
      await comesBack(second, 'after kill -9 of the process')

      process.kill(await nodePid(node), 'SIGKILL')
      await killProcess(second.process)
      await rm(path.join(dir, node), {recursive: true})
      const third = await start(node)
      await comesBack(third, 'after kill -9 of both and the loss of what the node had')

      await third.stop()
      await expect(readFile(path.join(dir, 'devnet.json'))).rejects.toThrow(/ENOENT/)
      expect(await commandLine(await nodePid(node))).toBeUndefined()
      const fourth = await start(node)
      await comesBack(fourth, 'after SIGTERM')
      await client.mine()
      expect(await client.mempool()).toEqual([])
      await expectAgreement(fourth, [alice, bob, carol])
    },
    240_000,
  )

  onAny(
    'nothing that a client saw ever changes while the node and the process are killed at random moments',
    async () => {
      const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
      console.log(`SEED=${seed}`)
      const random = new Random(seed)
      const seen = new Map<number, string>()
      const paid: string[] = []
      let devnet = await start(node, 50)
      const {client} = devnet
      for (let kill = 0; kill < 4; kill++) {
        const more = (await client.head()).height + Math.floor(random.next() * 8) + 1
        const watcher = await electrum(devnet.devnet.url)
        await until(
          async () => {
            const head = z
              .object({height: z.int(), hex: z.string()})
              .parse(await watcher.ask('blockchain.headers.subscribe'))
            seen.set(head.height, Block.fromHex(head.hex).getId())
            paid.push((await client.pay([{to: alice, amount: BigInt(1000 + paid.length)}])).txid)
            return head.height >= more
          },
          {timeoutMs: 30_000, what: `block ${more}`, intervalMs: 5},
        )
        const victim = random.next()
        const dying = client.pay([{to: bob, amount: 1000n}]).catch(() => {}) // its outcome is unknown
        if (victim < 0.7) process.kill(await nodePid(node), 'SIGKILL')
        if (victim > 0.4) {
          await killProcess(devnet.process)
          devnet = await start(node, 50)
        }
        await dying
      }
      const mined = await until(
        async () => {
          const {history} = await electrum(devnet.devnet.url)
          const entries = await history(alice)
          return entries.every(([, height]) => Number(height) > 0) && entries
        },
        {timeoutMs: 30_000, what: 'every payment to be mined'},
      )
      expect(paid.filter(txid => !mined.some(([mined]) => mined === txid))).toEqual([])
      for (const [height, hash] of seen) expect((await client.block(height)).hash).toBe(hash)
    },
    240_000,
  )

  onAny(
    'every transaction of a history exists, or has left the history, during replacements, reorganisations and kills',
    async () => {
      const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
      console.log(`SEED=${seed}`)
      const random = new Random(seed)
      let devnet = await start(node)
      const {client} = devnet
      const wrong: string[] = []
      let polls = 0
      let isOver = false

      const watch = async () => {
        const {ask, history, notifications} = await electrum(devnet.devnet.url)
        await ask('blockchain.scripthash.subscribe', scripthash(alice))
        while (!isOver) {
          const {length: changes} = notifications
          for (const [txid, height] of await history(alice)) {
            const isThere = await ask('blockchain.transaction.get', txid).then(
              () => true,
              error => !/no such transaction/.test(String(error)),
            )
            if (isThere) continue
            const isNamed = (await history(alice)).some(([again, at]) => again === txid && at === height)
            // A transaction that left the history, and came back, is notified of before the second history.
            if (isNamed && notifications.length === changes) wrong.push(`${txid} at ${height} is named, and not there`)
          }
          polls++
        }
      }
      const watching = (async () => {
        while (!isOver) await watch().catch(() => sleep(20)) // it was killed
      })()

      const fates = ['dropped', 'unconfirmed', 'same-height', 'later'] as const
      const doings: (() => Promise<unknown>)[] = [
        () => client.pay([{to: alice, amount: 10_000n}]),
        () => client.pay([{to: alice, amount: 20_000n}]),
        async () => client.replace(random.pick(await client.mempool()), random.next() < 0.5 ? {outputs: []} : {}),
        async () => client.forget([random.pick(await client.mempool())]),
        () => client.mine(),
        () => client.mine(1, {only: []}),
        () => client.reorg(1 + Math.floor(random.next() * 3), {transactions: random.pick(fates)}),
        () => client.invalidate(1, {transactions: random.pick(['dropped', 'unconfirmed'])}),
      ]
      for (let round = 0; round < 20; round++) {
        const doing = random
          .pick(doings)()
          .catch(() => {}) // the mempool is empty, or it was killed meanwhile
        await sleep(random.next() * 20)
        if (random.next() < 0.25) kill(await nodePid(node), 'SIGKILL')
        if (random.next() < 0.08) {
          await killProcess(devnet.process)
          devnet = await start(node)
        }
        await doing
      }
      await client.mine()
      const seen = polls
      await until(async () => polls >= seen + 2, {timeoutMs: 60_000, what: 'a last look'})
      isOver = true
      await watching
      expect(wrong).toEqual([])
      await expectAgreement(devnet, [alice])
    },
    240_000,
  )

  onNode(
    'each kind of reorganisation treats transactions as documented, on the node and for Electrum clients',
    async () => {
      const devnet = await start(node)
      const {client} = devnet
      const watcher = await electrum(devnet.devnet.url)
      await watcher.ask('blockchain.headers.subscribe')
      const pay = async (to: string) => {
        const made = await client.pay([{to, amount: 10_000n}])
        await client.mine()
        return made
      }
      const at = async (to: string) => (await watcher.history(to))[0]
      const one = await pay(alice)
      const two = await pay(bob)
      const {height} = await client.head()
      expect([await at(alice), await at(bob)]).toEqual([
        [one.txid, height - 1],
        [two.txid, height],
      ])

      const before = await client.block(height - 1)
      const same = await client.reorg(2, {transactions: 'same-height'})
      expect(same.height).toBe(height + 1)
      expect((await client.block(height - 1)).hash).not.toBe(before.hash)
      expect([await at(alice), await at(bob)]).toEqual([
        [one.txid, height - 1],
        [two.txid, height],
      ])
      await expectAgreement(devnet, [alice, bob])

      await client.reorg(3, {keepTransactions: true})
      expect([await at(alice), await at(bob)]).toEqual([
        [one.txid, height],
        [two.txid, height + 1],
      ])

      const {height: top} = await client.head()
      await client.reorg(top - height + 1, {transactions: 'same-height', only: [two.txid], rest: 'unconfirmed'})
      expect([await at(alice), await at(bob)]).toEqual([
        [one.txid, 0],
        [two.txid, height + 1],
      ])
      expect(await client.mempool()).toEqual([one.txid])
      await expectAgreement(devnet, [alice, bob])

      const {height: now} = await client.head()
      await client.reorg(now - height + 1, {transactions: 'unconfirmed'})
      expect((await client.mempool()).sort()).toEqual([one.txid, two.txid].sort())
      await client.mine()
      expect(await client.mempool()).toEqual([])

      const {raw, txid} = await client.conflict(one.txid, [{to: carol, amount: 9_000n}])
      await client.reorg(1, {transactions: 'later', include: [raw]})
      const last = await client.head()
      expect([await at(alice), await at(bob), await at(carol)]).toEqual([
        undefined,
        [two.txid, last.height],
        [txid, last.height - 1],
      ])
      await expect(client.submit(one.raw)).rejects.toThrow(/missingorspent/)

      await client.reorg(2)
      expect([await at(alice), await at(bob), await at(carol)]).toEqual([undefined, undefined, undefined])
      expect(await client.mempool()).toEqual([])
      expect(await client.submit(two.raw)).toBe(two.txid)
      expect(await at(bob)).toEqual([two.txid, 0])
      await expectAgreement(devnet, [alice, bob, carol])

      const end = await client.head()
      await client.mine()
      await client.invalidate(2)
      expect(await client.head()).toMatchObject({height: end.height - 1})
      expect(await client.mempool()).toEqual([two.txid])
      await client.mine(2)
      await client.invalidate(2, {transactions: 'dropped'})
      expect(await client.mempool()).toEqual([])
      await expectAgreement(devnet, [alice, bob, carol])
      const heads = watcher.notifications.filter(({method}) => method === 'blockchain.headers.subscribe')
      expect(heads.at(-1)?.params).toEqual([
        {height: end.height - 1, hex: await watcher.ask('blockchain.block.header', end.height - 1)},
      ])

      const paid = await client.send({token: 'BTC', to: alice, amount: '0.0001'})
      await client.reorg(1, {doubleSpend: paid})
      await expect(client.raw(paid)).rejects.toThrow('there is no transaction')
      await expectAgreement(devnet, [alice])
    },
    240_000,
  )

  onNode(
    'Electrum clients are notified of every change of a script, and of nothing else',
    async () => {
      const {client, devnet} = await start(node)
      const {ask, notifications} = await electrum(devnet.url)
      expect(await ask('server.version', 'test', '1.4')).toEqual(['sluice devnet', '1.4'])
      expect(await ask('blockchain.scripthash.subscribe', scripthash(alice))).toBeNull()
      const status = (...entries: [string, number][]) =>
        createHash('sha256')
          .update(entries.map(([txid, height]) => `${txid}:${height}:`).join(''))
          .digest('hex')
      const told = async () => {
        await ask('server.ping')
        return notifications.splice(0).map(({params}) => params)
      }
      const {txid} = await client.pay([{to: alice, amount: 10_000n}])
      await client.pay([{to: bob, amount: 10_000n}])
      expect(await told()).toEqual([[scripthash(alice), status([txid, 0])]])
      const {height} = await client.mine()
      expect(await told()).toEqual([[scripthash(alice), status([txid, height])]])
      await client.reorg(1, {transactions: 'same-height'})
      expect(await told()).toEqual([])
      await client.reorg(2)
      expect(await told()).toEqual([[scripthash(alice), null]])

      const faucet = client.info.faucet_address
      const parent = await client.pay([{to: faucet, amount: 50_000n}])
      const child = await client.pay([{to: alice, amount: 10_000n}], {inputs: [`${parent.txid}:0`]})
      expect(await told()).toEqual([[scripthash(alice), status([child.txid, -1])]])
      await client.mine(1, {only: [parent.txid]})
      expect(await told()).toEqual([[scripthash(alice), status([child.txid, 0])]])
      const replaced = await client.replace(child.txid, {outputs: [{to: bob, amount: 10_000n}]})
      expect(await told()).toEqual([[scripthash(alice), null]])
      expect(await client.mempool()).toEqual([replaced.txid])
      await client.forget([replaced.txid])
      expect(await client.mempool()).toEqual([])
    },
    240_000,
  )

  onAny(
    'an impossible request is refused with a reason, and changes nothing',
    async () => {
      const devnet = await start(node)
      const {client} = devnet
      const {txid, raw} = await client.pay([{to: alice, amount: 10_000n}])
      await client.mine(2)
      const waits = await client.pay([{to: bob, amount: 10_000n}])
      const {hash, height} = await client.head()
      const {ask, socket} = await electrum(devnet.devnet.url)
      await expect(client.submit('00')).rejects.toThrow('TX decode failed')
      await expect(client.submit(raw)).rejects.toThrow('already in utxo set')
      await expect(client.submit((await client.conflict(txid)).raw)).rejects.toThrow(/missingorspent/)
      await expect(client.replace(waits.txid, {feeRate: 2.1})).rejects.toThrow(/insufficient fee/)
      await expect(client.pay([{to: bob, amount: 10n ** 15n}])).rejects.toThrow('the faucet has')
      if (node === 'bitcoind') await expect(client.pay([{to: bob, amount: 200n}])).rejects.toThrow(/dust/)
      await expect(client.pay([{to: 'tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx', amount: 1n}])).rejects.toThrow(
        'is not an address',
      )
      await expect(client.replace('00'.repeat(32))).rejects.toThrow('have no transaction')
      await expect(client.reorg(height + 1)).rejects.toThrow(`there are ${height} blocks above genesis`)
      await expect(client.reorg(0)).rejects.toThrow('cannot replace 0 blocks')
      await expect(client.mine(10_001)).rejects.toThrow('cannot mine 10001 blocks at once')
      await expect(client.rpc('generatetoaddress', [1, alice])).rejects.toThrow('does not serve generatetoaddress')
      // Invalid blocks: one with a spent input, in place of a block and on top.
      const spent = (await client.conflict(txid)).raw
      await expect(client.mine(1, {include: [spent]})).rejects.toThrow('the node refuses')
      await expect(client.reorg(1, {include: [spent]})).rejects.toThrow('the node refuses')
      await expect(ask('blockchain.scripthash.subscribe', 'ab')).rejects.toThrow('-32602')
      await expect(ask('blockchain.transaction.get', '00'.repeat(32))).rejects.toThrow('2: daemon error')
      await expect(ask('blockchain.block.header', height + 1)).rejects.toThrow('1: height')
      await expect(ask('blockchain.transaction.broadcast', raw)).rejects.toThrow('1: the transaction was rejected')
      socket.write('{"method":\n')
      expect(JSON.parse(String((await once(socket, 'data'))[0]))).toMatchObject({id: null, error: {code: -32700}})
      expect(await client.head()).toMatchObject({hash, height})
      expect(await client.mempool()).toEqual([waits.txid])
      await expectAgreement(devnet, [alice, bob])
      await client.mine()
      expect(await client.mempool()).toEqual([])
    },
    240_000,
  )

  onAny(
    'the devnet mines automatically, also a thousand blocks at once, and continues after the node was killed',
    async () => {
      const {client} = await start(node, 100)
      const grows = async (by: number) => {
        const {height} = await client.head()
        await until(async () => (await client.head()).height >= height + by, {timeoutMs: 30_000, what: `${by} blocks`})
      }
      await grows(3)
      await client.send({token: 'BTC', to: alice, amount: '0.5', feeRate: 5})
      process.kill(await nodePid(node), 'SIGKILL')
      await grows(3)
      const {height} = await client.head()
      expect((await client.mine(1000)).height).toBeGreaterThanOrEqual(height + 1000)
      await client.send({token: 'BTC', to: alice, amount: '0.00001'})
    },
    240_000,
  )

  onAny(
    'a second process for the same directory names the endpoint of the first, and one for another chain fails',
    async () => {
      const {devnet} = await start(node)
      const second = await startDevnet(bitcoin, {chain: 'BTC', dir, node})
      await until(async () => second.process.exitCode === 0, {timeoutMs: 10_000, what: 'the second process to end'})
      expect(second.devnet).toEqual(devnet)
      const evm = await families.evm()
      await expect(startDevnet(evm, {chain: 'ETH', dir})).rejects.toThrow('holds the local chain of BTC, not of ETH')
      await started[0]?.stop()
      await expect(startDevnet(evm, {chain: 'ETH', dir})).rejects.toThrow('holds the local chain of BTC, not of ETH')
    },
    120_000,
  )
})

test.skipIf(!hasBitcoind)(
  'a chain that was made on one kind of node continues on the other',
  async () => {
    const first = await start('bitcoind')
    const taproot = 'bcrt1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqc8gma6'
    await first.client.pay([{to: taproot, amount: 10_000n}])
    await first.client.mine()
    const chain = await rawBlocks(first.client)
    await first.stop()
    const {client, devnet} = await start('bcoin')
    expect(devnet.node).toBe('bcoin')
    expect(await rawBlocks(client)).toEqual(chain)
  },
  240_000,
)
