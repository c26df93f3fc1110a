// Who sent a payment: the same from an Electrum server and from a node, on each kind of node, for payers of every kind,
// unconfirmed and mined. Both sources follow the same chain, each into a database of its own.
import {createHash} from 'node:crypto'
import {initEccLib, payments as kinds, networks, type Payment, Psbt, Transaction} from 'bitcoinjs-lib'
import pino from 'pino'
import * as ecc from 'tiny-secp256k1'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {Electrum} from '../../chains/bitcoin/electrum.ts'
import {Bitcoind} from '../../chains/bitcoin/rpc.ts'
import {addressOfScript} from '../../chains/bitcoin/script.ts'
import {chain} from '../../chains/registry.ts'
import {openPool} from '../../db/client/pool.ts'
import {RpcError} from '../../devnet/engine.ts'
import {bitcoinNodes, startBitcoin, type TestBitcoin} from '../../test/support/bitcoin/node.ts'
import {type TestDatabase, testDatabase} from '../../test/support/database.ts'
import {makeMerchant, watchAddress} from '../../test/support/people.ts'
import {faults, RpcProxy} from '../../test/support/rpc-proxy.ts'
import {until} from '../../test/support/until.ts'
import {ChainCursor} from '../cursor.ts'
import {type ChainSource, Follower} from '../follow.ts'
import {writeBlocks} from '../match.ts'
import {ChainDatabase} from '../subsquid/store.ts'
import {AddressFeed} from './addresses.ts'
import {ElectrumSource} from './electrum-source.ts'
import {NodeSource} from './node-source.ts'
import {pollOnce, type UnconfirmedSource} from './unconfirmed.ts'

initEccLib(ecc)
const bitcoin = chain('BTC')
if (bitcoin.family !== 'bitcoin') throw new Error('BTC is of another family')
const format = bitcoin.networks.regtest
const settings = {chain: bitcoin, network: 'regtest', confirmations: 6} as const
const network = networks.regtest
const log = pino({level: 'silent'})

const privateKey = createHash('sha256').update('a payer').digest()
const pubkey = ecc.pointFromScalar(privateKey, true)!
const internalPubkey = pubkey.subarray(1)
const signer = {publicKey: pubkey, sign: (hash: Uint8Array) => ecc.sign(hash, privateKey)}
const tweak = taggedHash('TapTweak', internalPubkey)
const evenKey = pubkey[0] === 3 ? ecc.privateNegate(privateKey) : privateKey
const tweakedKey = ecc.privateAdd(evenKey, tweak)!
const taprootSigner = {
  publicKey: ecc.pointFromScalar(tweakedKey, true)!,
  sign: (hash: Uint8Array) => ecc.sign(hash, tweakedKey),
  signSchnorr: (hash: Uint8Array) => ecc.signSchnorr(hash, tweakedKey),
}

const p2wpkh = kinds.p2wpkh({pubkey, network})
const p2pk = kinds.p2pk({pubkey, network})
const multisig = kinds.p2ms({m: 1, pubkeys: [pubkey, ecc.pointFromScalar(privateKey.toReversed(), true)!], network})

interface Kind {
  output: Payment
  /** The script and witness that a spender adds to the input. */
  input?: object
  hasAddress: boolean
}

const payers: Record<string, Kind> = {
  P2PKH: {output: kinds.p2pkh({pubkey, network}), hasAddress: true},
  'P2SH-P2WPKH': {
    output: kinds.p2sh({redeem: p2wpkh, network}),
    input: {redeemScript: p2wpkh.output!},
    hasAddress: true,
  },
  P2WPKH: {output: p2wpkh, hasAddress: true},
  P2WSH: {output: kinds.p2wsh({redeem: p2pk, network}), input: {witnessScript: p2pk.output!}, hasAddress: true},
  P2TR: {
    output: kinds.p2tr({internalPubkey, network}),
    input: {tapInternalKey: internalPubkey},
    hasAddress: true,
  },
  'bare multisig': {output: multisig, hasAddress: false},
  P2PK: {output: p2pk, hasAddress: false},
}

function taggedHash(tag: string, message: Uint8Array): Uint8Array {
  const prefix = createHash('sha256').update(tag).digest()
  return createHash('sha256').update(prefix).update(prefix).update(message).digest()
}

/** A payment of the whole amount of a payer's output. */
function spend(kind: Kind, {txid, raw}: {txid: string; raw: string}, index: number, to: string): string {
  const isTaproot = kind.output.name === 'p2tr'
  const psbt = new Psbt({network})
  const known = isTaproot
    ? {witnessUtxo: {script: kind.output.output!, value: each}}
    : {nonWitnessUtxo: Buffer.from(raw, 'hex')}
  psbt.addInput({hash: txid, index, ...known, ...kind.input})
  psbt.addOutput({address: to, value: each - 1000n})
  psbt.signInput(0, isTaproot ? taprootSigner : signer)
  return psbt.finalizeAllInputs().extractTransaction().toHex()
}
const each = 100_000n

/** A source, and the results of following it. */
interface Reading {
  db: TestDatabase
  /** Follows to the head, and polls unconfirmed transactions. */
  poll(): Promise<void>
  senderOf(txid: string): Promise<string | undefined>
  close(): Promise<void>
}

let program = 0
const newAddress = () =>
  addressOfScript(Buffer.concat([Uint8Array.of(0, 20), Buffer.from(`${++program}`.padStart(20, 's'))]), format)!

describe.each(bitcoinNodes)('on %s', kindOfNode => {
  let node: TestBitcoin
  let proxy: RpcProxy
  const readings: Reading[] = []
  let fund: {txid: string; raw: string}
  const kindsHere = Object.entries(payers).filter(([name]) => name !== 'P2TR' || kindOfNode === 'bitcoind')
  const addresses = new Map<string, string>()
  const ours = Array.from({length: 20}, newAddress)

  beforeAll(async () => {
    node = await startBitcoin({node: kindOfNode})
    const {txid} = await node.client.pay([{to: newAddress(), amount: each}])
    fund = await node.client.conflict(
      txid,
      kindsHere.map(([, {output}]) => ({script: Buffer.from(output.output!).toString('hex'), amount: each})),
    )
    await node.client.mine(1, {include: [fund.raw]}) // no mempool accepts outputs to a key or to a bare multisig
    for (const [name, {output, hasAddress}] of kindsHere) addresses.set(name, hasAddress ? output.address! : 'unknown')
    proxy = await RpcProxy.start({call: (method, params) => passOn(node, method, params)})
    readings.push(await follow('electrum'), await follow('node'))
  })
  afterAll(async () => {
    for (const reading of readings) await reading.close()
    await proxy?.close()
    await node?.stop()
  })

  async function follow(source: 'electrum' | 'node'): Promise<Reading> {
    const db = await testDatabase()
    const merchant = await makeMerchant(db, ['BTC'])
    for (const address of ours)
      await watchAddress(db, merchant, {address, family: 'bitcoin', watched: ['BTC'], chains: ['BTC']})
    const url = db.url('sluice_indexer')
    const pool = openPool(url, {name: 'test', max: 3})
    const cursor = new ChainCursor(pool, 'BTC')
    const {from, end} = source === 'electrum' ? electrumSource() : nodeSource()
    const {height} = await node.client.head()
    const {hash, time} = (await from.blockAt(height))!
    await cursor.anchor(await from.network(), height, hash, time)
    const write = {chain: 'BTC', display: (address: string) => address}
    const follower = new Follower({
      database: new ChainDatabase(url, 'BTC'),
      cursor,
      source: from,
      network: await from.network(),
      log,
      pollMs: 1,
      write: (store, blocks) => writeBlocks(store, blocks, write),
    })

    function electrumSource(): {from: ChainSource & UnconfirmedSource; end: () => Promise<void>} {
      const electrum = new Electrum({urls: [node.electrumUrl], genesis: format.genesis, log})
      const feed = new AddressFeed(pool, url, 'BTC')
      const from = new ElectrumSource({electrum, cursor, db: pool, addresses: feed, settings, log})
      return {
        from,
        async end() {
          electrum.close()
          await feed.close()
        },
      }
    }

    function nodeSource(): {from: ChainSource & UnconfirmedSource; end: () => Promise<void>} {
      const client = new Bitcoind(proxy.httpUrl.replace('//', '//user:password@'))
      return {from: new NodeSource({node: client, db: pool, settings}), end: () => client.close()}
    }

    return {
      db,
      async poll() {
        await until(
          async () => {
            while (await follower.round());
            return follower.tip?.hash === (await node.client.head()).hash
          },
          {timeoutMs: 20_000, what: 'the head'},
        )
        await pollOnce(from, {db: pool, cursor, network: settings, log, intervalMs: 1})
      },
      async senderOf(txid) {
        const rows = await db.rows<{sender: string}>('select sender from app.deposit where txid = $1', [txid])
        return rows[0]?.sender
      },
      async close() {
        await follower.forget()
        await end()
        await pool.end()
        await db.drop()
      },
    }
  }

  /** The sender of a payment according to both sources; waits until they know the payment. */
  async function toldBy(txid: string): Promise<(string | undefined)[]> {
    return await Promise.all(
      readings.map(async reading => {
        await until(
          async () => {
            await reading.poll()
            return (await reading.senderOf(txid)) !== undefined
          },
          {timeoutMs: 20_000, what: `${txid} to be seen`},
        )
        return await reading.senderOf(txid)
      }),
    )
  }

  test.each(kindsHere)('both sources name a payer by %s alike, unconfirmed and mined', async (name, kind) => {
    const index = kindsHere.findIndex(([other]) => other === name)
    const txid = await node.client.submit(spend(kind, fund, index, ours[index]!))
    const expected = addresses.get(name)!
    expect(await toldBy(txid)).toEqual([expected, expected])
    await node.client.mine()
    for (const {poll} of readings) await poll()
    const mined = readings.map(({db}) =>
      db.rows<{sender: string}>('select sender from chain.transfer where txid = $1', [txid]),
    )
    expect(await Promise.all(mined)).toEqual([[{sender: expected}], [{sender: expected}]])
  })

  test('both sources name the payer of a transaction that spends an unconfirmed output', async () => {
    const txid = await node.client.submit(await unconfirmedFrom('P2PKH', ours[10]!))
    expect(await toldBy(txid)).toEqual([addresses.get('P2PKH'), addresses.get('P2PKH')])
  })

  test('both sources call the sender of new coins coinbase', async () => {
    const {hash} = await node.client.mine(1, {to: ours[11]!})
    const {txids} = await node.client.block(hash)
    expect(await toldBy(txids[0]!)).toEqual(['coinbase', 'coinbase'])
  })

  test("a node is asked for the senders of a block once, and only if an output of ours needs more than the block's bytes", async () => {
    const [, reading] = readings as [Reading, Reading]
    const asked: unknown[] = []
    proxy.behave = ({method, params}, pass) => {
      if (method === 'getblock' && params[1] === 3) asked.push(params[0])
      return pass()
    }
    await node.client.mine(1, {include: [await minedFrom('P2PKH', newAddress())]}) // to an address that is not ours
    await node.client.pay([{to: ours[12]!, amount: 5000n}]) // by a P2WPKH input
    await node.client.mine()
    await reading.poll()
    expect(asked).toEqual([])
    const payments = [await minedFrom('P2PKH', ours[13]!), await minedFrom('P2WSH', ours[14]!)]
    const {hash} = await node.client.mine(1, {include: payments})
    await reading.poll()
    proxy.behave = undefined
    expect(asked).toEqual([hash])
    for (const [i, name] of ['P2PKH', 'P2WSH'].entries())
      expect(await reading.senderOf(idOf(payments[i]!))).toBe(addresses.get(name))
  })

  test.each<[string, (block: {tx: {vin: object[]}[]}) => unknown]>([
    ['has pruned what a block spent', block => ({...block, tx: block.tx.map(one => ({...one, vin: [{}]}))})],
    ['knows no such question', () => faults.error('Verbosity was boolean but only integer allowed')],
  ])('of a node that %s the sender is unknown, and the payment is there', async (_, change) => {
    const [, reading] = readings as [Reading, Reading]
    const payment = await minedFrom('P2PKH', ours[15]!)
    proxy.behave = async ({method, params}, pass) => {
      if (method !== 'getblock' || params[1] !== 3) return pass()
      return change((await pass()) as {tx: {vin: object[]}[]})
    }
    await node.client.mine(1, {include: [payment]})
    await reading.poll()
    proxy.behave = undefined
    expect(await reading.senderOf(idOf(payment))).toBe('unknown')
  })

  test.each<[string, (block: {tx: object[]}) => unknown]>([
    ['nothing', () => ''],
    ['another block', block => ({...block, hash: '11'.repeat(32)})],
    ['a block without it', block => ({...block, tx: block.tx.slice(0, 1)})],
    ['an error that may pass', () => refuse(-5, 'Block not found')],
  ])('a node that answers with %s instead of the senders is asked again', async (_, change) => {
    const [, reading] = readings as [Reading, Reading]
    const payment = await minedFrom('P2PKH', ours[16]!)
    let lies = 2
    proxy.behave = async ({method, params}, pass) => {
      if (method !== 'getblock' || params[1] !== 3 || lies-- <= 0) return pass()
      return change((await pass()) as {tx: object[]})
    }
    await node.client.mine(1, {include: [payment]})
    await reading.poll()
    proxy.behave = undefined
    expect(lies).toBeLessThan(0)
    expect(await reading.senderOf(idOf(payment))).toBe(addresses.get('P2PKH'))
  })

  test('a node that sends another unconfirmed transaction than it was asked for shows no payment', async () => {
    const [, reading] = readings as [Reading, Reading]
    await reading.poll()
    const forged = await minedFrom('P2PKH', ours[18]!)
    proxy.behave = ({method}, pass) => (method === 'getrawtransaction' ? forged : pass())
    const {txid} = await node.client.pay([{to: ours[17]!, amount: 5000n}])
    await expect(reading.poll()).rejects.toThrow(`another transaction than ${txid}`)
    proxy.behave = undefined
    await reading.poll()
    expect(await reading.senderOf(txid)).toBeDefined()
    expect(await reading.senderOf(idOf(forged))).toBeUndefined()
  })

  /** A payment by an output that is in the mempool. */
  async function unconfirmedFrom(name: string, to: string): Promise<string> {
    const {output} = payers[name]!
    const script = Buffer.from(output.output!).toString('hex')
    return spend(payers[name]!, await node.client.pay([{script, amount: each}]), 0, to)
  }

  /** A payment that spends an output in a block; it is not sent to any node. */
  async function minedFrom(name: string, to: string): Promise<string> {
    const payment = await unconfirmedFrom(name, to)
    await node.client.mine()
    return payment
  }
})

function idOf(raw: string): string {
  return Transaction.fromHex(raw).getId()
}

function refuse(code: number, message: string): never {
  throw new RpcError({code, message})
}

async function passOn({rpcUrl}: TestBitcoin, method: string, params: unknown[]): Promise<unknown> {
  if (method === 'GET') {
    const response = await fetch(`${rpcUrl}${params[0]}`)
    return response.ok ? new Uint8Array(await response.arrayBuffer()) : undefined
  }
  const response = await fetch(rpcUrl, {method: 'POST', body: JSON.stringify({jsonrpc: '1.0', id: 1, method, params})})
  const {result, error} = (await response.json()) as {result: unknown; error: {code: number; message: string} | null}
  if (error) throw new RpcError(error)
  return result
}
