// Each lie does what its name says, and can be ended.
import {pino} from 'pino'
import {afterAll, afterEach, beforeAll, beforeEach, expect, test} from 'vitest'
import {z} from 'zod'
import {RetryableError} from '../../../base/errors.ts'
import {Electrum, ElectrumError} from '../../../chains/bitcoin/electrum.ts'
import {scripthashOf, scriptOfAddress} from '../../../chains/bitcoin/script.ts'
import {until} from '../until.ts'
import {type Lie, lie} from './electrum-lies.ts'
import {LyingElectrum} from './lying-electrum.ts'
import {regtestGenesis, startBitcoin, type TestBitcoin} from './node.ts'

const regtest = {hrp: 'bcrt', pubKeyHash: 0x6f, scriptHash: 0xc4}
const addresses = ['bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080', 'mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn']
const [old, young] = addresses.map(address => scripthashOf(scriptOfAddress(address, regtest))) as [string, string]
const History = z.array(z.object({tx_hash: z.string(), height: z.int()}))
const Proof = z.object({pos: z.int(), merkle: z.array(z.string())})

let chain: TestBitcoin
let server: LyingElectrum
let electrum: Electrum
let mined: {tx_hash: string; height: number}

beforeAll(async () => {
  chain = await startBitcoin()
})
afterAll(() => chain?.stop())

beforeEach(async () => {
  server = await LyingElectrum.start(chain.electrumUrl)
  electrum = new Electrum({urls: [server.url], genesis: regtestGenesis, log: pino({enabled: false}), timeoutMs: 2000})
  mined = {tx_hash: (await pay(0)).txid, height: (await chain.client.mine()).height}
  await pay(0)
  await electrum.subscribeScripthashes([old, young])
  electrum.takeChanged()
})
afterEach(async () => {
  electrum.close()
  await server.close()
})

const pay = (index: number) => chain.client.pay([{to: addresses[index]!, amount: 10_000n}])
const ask = <T>(schema: z.ZodType<T>, method: string, ...params: unknown[]) => electrum.request(method, params, schema)
const history = (scripthash: string) => ask(History, 'blockchain.scripthash.get_history', scripthash)
const height = async () => (await ask(z.object({height: z.int()}), 'blockchain.headers.subscribe')).height
const proof = (tx_hash: string, height: number) => ask(Proof, 'blockchain.transaction.get_merkle', tx_hash, height)
const raw = () => ask(z.string(), 'blockchain.transaction.get', mined.tx_hash)
const headers = async (from: number) =>
  (await ask(z.object({count: z.int()}), 'blockchain.block.headers', from, 10)).count

/** What a client sees while the server lies. */
const seen: Record<Lie, () => Promise<void>> = {
  async lags() {
    const before = await history(old)
    await pay(1)
    await chain.client.reorg(1, {transactions: 'dropped'})
    await chain.client.mine(2)
    expect(await history(old)).toEqual(before)
    expect(await history(young)).toEqual([])
    expect(before.map(({height}) => height)).toEqual([mined.height, 0])
    expect(await height()).toBe(mined.height)
    expect(await headers(mined.height)).toBe(1)
    expect((await proof(mined.tx_hash, mined.height)).pos).toBe(1)
    await electrum.subscribeScripthashes([old, young])
    expect(electrum.takeChanged()).toEqual([])
  },
  async 'repeats itself'() {
    const before = await height()
    await height()
    await height()
    await chain.client.mine()
    expect(await height()).toBe(before)
    expect(await height()).toBe(before + 1)
  },
  async 'returns nothing'() {
    expect(await history(old)).toEqual([])
    expect(await headers(0)).toBe(0)
    await expect(raw()).rejects.toThrow('No such')
    await expect(proof(mined.tx_hash, mined.height)).rejects.toThrow(ElectrumError)
    await electrum.subscribeScripthashes([old])
    expect(electrum.statuses().get(old)).toBe(null)
  },
  async fails() {
    const failures = new Set<string>()
    const ask = async () => {
      const {name} = await height().then(
        () => ({name: 'none'}),
        (error: Error) => error,
      )
      return failures.add(name).size === 3
    }
    await until(ask, {timeoutMs: 20_000, what: 'each way to fail'})
    expect([...failures].sort()).toEqual(['ElectrumError', 'RetryableError', 'none'])
  },
  async hangs() {
    await expect(height()).rejects.toThrow(RetryableError)
  },
  async 'is of another network'() {
    const {generation} = electrum
    server.disconnect()
    await server.asked(2, 'server.version')
    expect(electrum.generation).toBe(generation)
  },
  async 'forges proofs'() {
    const forged = await proof(mined.tx_hash, mined.height)
    const {merkle} = (await server.honestly(ask =>
      ask('blockchain.transaction.get_merkle', mined.tx_hash, mined.height),
    )) as {merkle: string[]}
    expect(forged.merkle).toHaveLength(merkle.length)
    expect(forged.merkle).not.toEqual(merkle)
  },
  async 'forges histories'() {
    const {txid} = await pay(1)
    const head = await height()
    const forged = await history(young)
    expect(forged).toContainEqual({tx_hash: txid, height: head})
    expect(forged.every(({height}) => height > 0)).toBe(true)
    for (const {tx_hash} of forged) expect((await proof(tx_hash, head)).merkle.length).toBeGreaterThan(0)
  },
  async 'forges transactions'() {
    const {tx_hash} = mined
    const honest = await server.honestly(ask => ask('blockchain.transaction.get', tx_hash))
    expect(await raw()).not.toBe(honest)
  },
}

test.for(Object.entries(seen) as [Lie, () => Promise<void>][])('%s', async ([name, poll]) => {
  await lie(server, name)
  await poll()
  await lie(server)
  const honest = History.parse(await server.honestly(ask => ask('blockchain.scripthash.get_history', old)))
  const truth = async () => expect(await history(old)).toEqual(honest) ?? true
  await until(truth, {timeoutMs: 20_000, what: 'the truth'})
})
