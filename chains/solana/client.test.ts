// The client of Solana nodes, against a local chain and against servers that answer wrongly: amounts are exact, every
// failure is of a known kind, and no message has a key.
import {createServer, type Server} from 'node:http'
import type {AddressInfo} from 'node:net'
import {afterEach, beforeEach, describe, expect, test} from 'vitest'
import {PermanentError, RetryableError} from '../../base/errors.ts'
import {silent} from '../../base/log.ts'
import {newAddress, type SolanaClient} from '../../devnet/solana/client.ts'
import {faucet, faucetBalance, faucetKey, genesisHash, hashOf} from '../../devnet/solana/constants.ts'
import {solana} from '../../devnet/solana/family.ts'
import {addressOfKey, newKey} from '../../devnet/solana/keys.ts'
import {payment} from '../../devnet/solana/transaction.ts'
import {openHead, Pruned, SolanaNode} from './client.ts'

describe('with a local chain', () => {
  let client: SolanaClient
  let node: SolanaNode
  let close: () => Promise<void>

  beforeEach(async () => {
    const {journal, serve} = await solana.open('SOL', ':memory:')
    const serving = await serve({directory: '', blockIntervalMs: 0, log: silent()})
    client = await solana.connect(serving.where.url)
    node = new SolanaNode({url: serving.where.url}, 2000)
    await client.mine()
    close = async () => {
      await serving.close()
      journal.close()
    }
  })
  afterEach(() => close())

  const pay = (to: string, amount: bigint) => client.rpc('devnet_pay', [to, String(amount)])

  test('heads, slots and headers agree', async () => {
    await client.mine(40, {skip: 2})
    const {height, hash} = await client.head()
    const latest = await node.latest('confirmed')
    expect(latest).toMatchObject({height, hash})
    expect(await node.latest('finalized')).toMatchObject({height: height - 31})
    expect(await node.genesis()).toBe(genesisHash)
    expect(await openHead({endpoints: [{url: client.url}]}, 2000).height()).toBe(height)
    const slots = await node.slots(latest.slot - 5, latest.slot + 5, 'confirmed')
    expect(slots).toEqual([-5, -4, -3, -2, -1, 0].map(i => latest.slot + i))
    const header = await node.header(latest.slot, 'confirmed')
    const below = await node.header(header!.parentSlot, 'confirmed')
    expect(header).toMatchObject({slot: latest.slot, height, hash, parentHash: below!.hash})
    expect(await node.header(latest.slot, 'finalized')).toBeUndefined()
    expect(await node.firstSlot()).toBe(0)
  })

  test('a block has its transactions, with exact balances above 2^53', async () => {
    const to = newAddress()
    const txid = await pay(to, 9_007_199_254_740_993n)
    await client.mine()
    const {slot} = await node.latest('confirmed')
    const block = await node.block(slot, 'confirmed')
    expect(block!.transactions).toHaveLength(1)
    const [transaction] = block!.transactions
    expect(transaction).toMatchObject({txid, signers: [faucet], hasFailed: false, fee: 5000n})
    const [mine, theirs] = [faucet, to].map(key => transaction!.keys.indexOf(key)) as [number, number]
    expect(transaction!.after[theirs]).toBe(9_007_199_254_740_993n)
    expect([transaction!.before[mine], transaction!.after[mine]]).toEqual([
      faucetBalance,
      faucetBalance - 9_007_199_254_740_993n - 5000n,
    ])
    expect(await node.balance(to, 'confirmed', slot)).toEqual({slot, lamports: 9_007_199_254_740_993n})
    expect(await node.balance(to, 'finalized')).toMatchObject({lamports: 0n})
  })

  test('a simulation says how a transaction would end, also if nobody has signed it', async () => {
    const unsigned = (amount: bigint) =>
      Buffer.from(payment({key: faucetKey, on: hashOf('any')}, newAddress(), amount).fill(0, 1, 65)).toString('base64')
    expect(await node.simulate(unsigned(10n ** 9n))).toEqual({error: null, logs: []})
    const {error, logs} = await node.simulate(unsigned(2n * faucetBalance))
    expect(error).toEqual({InstructionError: [1, {Custom: 1}]})
    expect(logs.join()).toMatch('insufficient lamports')
    await expect(node.simulate('AAAA')).rejects.toThrow(PermanentError)
  })

  test('a transaction of a newer version is read, and one that only the next block makes valid is sent', async () => {
    const [key, to] = [newKey(), newAddress()]
    const on = (await client.head()).hash
    const txid = await pay(addressOfKey(key), 2_000_000n)
    const raw = Buffer.from(payment({key, on, version: 0}, to, 1_000_000n)).toString('base64')
    expect(await node.send(raw)).toBeUndefined() // its account has nothing yet
    await client.mine()
    const block = await node.block((await node.latest('confirmed')).slot, 'confirmed')
    expect(block!.transactions).toMatchObject([{txid}, {keys: expect.arrayContaining([to])}])
  })

  test('accounts, fees and the states of transactions', async () => {
    const to = newAddress()
    const on = (await client.head()).hash
    const raw = Buffer.from(payment({key: faucetKey, on}, to, 1_000_000n)).toString('base64')
    expect(await node.send(raw)).toBeUndefined()
    await client.mine()
    expect(await node.account(to, 'confirmed')).toEqual({
      lamports: 1_000_000n,
      owner: '11111111111111111111111111111111',
      executable: false,
      data: new Uint8Array(),
    })
    expect(await node.account(newAddress(), 'confirmed')).toBeUndefined()
    expect(await node.account('Vote111111111111111111111111111111111111111', 'confirmed')).toMatchObject({
      executable: true,
    })
    expect(await node.rentMinimum()).toBe(650_240n)
    expect(await node.recentFees([faucet])).toEqual([0n, 0n])
    const {slot} = await node.latest('confirmed')
    const [first] = (await node.block(slot, 'confirmed'))!.transactions
    expect(await node.statuses([first!.txid, hashOf('none')])).toEqual([
      {slot, hasFailed: false, finalized: false},
      undefined,
    ])
    expect(await node.send('AAAA')).toMatch('invalid transaction')
  })

  test.each([-32004, -32007, -32009, -32014])('%i says that no block is shown, which is no failure', async code => {
    const {slot} = await node.latest('confirmed')
    await client.rpc('devnet_trouble', [{fail: [{method: 'getBlock', code}]}])
    expect(await node.block(slot, 'confirmed')).toBeUndefined()
    expect(await node.block(slot, 'confirmed')).toBeDefined()
  })

  test.each([
    ['getBlock', -32001, Pruned],
    ['getBlock', -32015, PermanentError],
    ['getBlock', -32005, RetryableError],
    ['getBlocks', -32602, PermanentError],
    ['getLatestBlockhash', -32016, RetryableError],
    ['getLatestBlockhash', -32601, PermanentError],
  ])('%s that fails with %i', async (method, code, kind) => {
    await client.rpc('devnet_trouble', [{fail: [{method, code}]}])
    const ask = {
      getBlock: () => node.block(0, 'confirmed'),
      getBlocks: () => node.slots(0, 5, 'confirmed'),
      getLatestBlockhash: () => node.latest('confirmed'),
    }[method]!
    const error = await ask().catch(thrown => thrown)
    expect(error).toBeInstanceOf(kind)
    expect(error.message).toContain(`${method} (${code})`)
  })

  test('a balance is not of an earlier slot than asked for', async () => {
    const {slot} = await node.latest('confirmed')
    await expect(node.balance(faucet, 'confirmed', slot + 1)).rejects.toThrow('-32016')
  })
})

describe('with another server', () => {
  let server: Server
  let answer: (url: string) => {status?: number; body: string}
  let asked: string[]
  let node: SolanaNode

  beforeEach(async () => {
    asked = []
    server = createServer((request, response) => {
      asked.push(request.url!)
      const {status = 200, body} = answer(request.url!)
      if (body) response.writeHead(status, {'content-type': 'application/json'}).end(body)
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
    node = new SolanaNode({url, apiKey: 'secret-key'}, 200)
  })
  afterEach(() => {
    server.close()
    server.closeAllConnections()
  })

  const failures = async () => {
    const found = await Promise.all(
      [node.firstSlot(), node.block(5, 'confirmed')].map(each => each.catch(error => error)),
    )
    for (const error of found) {
      expect(error).toBeInstanceOf(RetryableError)
      expect(error.message).not.toMatch(/secret-key|127\.0\.0\.1/)
    }
    return found.map(error => error.message)
  }

  test.each<[string, {status?: number; body: string}, RegExp]>([
    ['no answer', {body: ''}, /TimeoutError/],
    ['no JSON', {body: '<html>'}, /no JSON/],
    ['half a response', {body: '{"jsonrpc":"2.0","result":{'}, /no JSON/],
    ['another response', {body: '{"jsonrpc":"2.0","id":1,"result":"x"}'}, /unexpected response/],
    ['an error of the server', {status: 500, body: '{}'}, /status 500/],
  ])('%s is a failure that may pass', async (_, wrong, message) => {
    answer = () => wrong
    for (const said of await failures()) expect(said).toMatch(message)
    expect(asked).toEqual(['/?api-key=secret-key', '/?api-key=secret-key'])
  })

  test('a block in which a transaction lacks a balance is a failure that may pass', async () => {
    const transaction = {
      transaction: {signatures: ['s'], accountKeys: [{pubkey: 'a', signer: true}]},
      meta: {err: null, fee: 5000, preBalances: [7], postBalances: [1, 2]},
    }
    const result = {
      blockHeight: 1,
      blockTime: 1,
      blockhash: hashOf('b'),
      parentSlot: 1,
      previousBlockhash: hashOf('a'),
      transactions: [transaction],
    }
    answer = () => ({body: JSON.stringify({jsonrpc: '2.0', id: 1, result})})
    await expect(node.block(5, 'confirmed')).rejects.toThrow('no balance for each of its keys')
  })

  test('a node that asks for fewer requests gets none for a while', async () => {
    answer = () => ({status: 429, body: '{}'})
    await failures()
    const before = asked.length
    expect(await failures()).toEqual(Array(2).fill('the node asked for fewer requests; it gets none now'))
    expect(asked.length).toBe(before)
  })
})
