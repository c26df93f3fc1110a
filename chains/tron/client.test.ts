// The client of Tron nodes: what a node sends is checked, what it leaves out is there, and a node that does not work is
// not asked for ever.
import {createServer, type Server} from 'node:http'
import type {AddressInfo} from 'node:net'
import {afterEach, beforeEach, expect, test, vi} from 'vitest'
import {RetryableError} from '../../base/errors.ts'
import {parseJson} from '../../base/json.ts'
import {openHead, TronNode, TronNodes} from './client.ts'

interface Asked {
  path: string
  body: unknown
  key: string | undefined
}
interface Node {
  url: string
  asked: Asked[]
  /** The response to each request: a status and a text; undefined: none. */
  answer: () => [number, string] | undefined
}

const servers: Server[] = []
let nodes: Node[]

beforeEach(async () => {
  nodes = await Promise.all([serve(), serve()])
})
afterEach(() => {
  vi.useRealTimers()
  for (const server of servers.splice(0)) server.close().closeAllConnections()
})

async function serve(): Promise<Node> {
  const node: Node = {url: '', asked: [], answer: () => [200, '{}']}
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    node.asked.push({path: request.url!, body: JSON.parse(body), key: request.headers['tron-pro-api-key'] as string})
    const [status, text] = node.answer() ?? []
    if (status !== undefined) response.writeHead(status).end(text)
  })
  servers.push(server)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  node.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return node
}

const nodeOf = (timeoutMs = 2000) =>
  new TronNode({url: `${nodes[0]!.url}/`, solidityUrl: nodes[1]!.url}, 'a key', timeoutMs)
const answers = (text: string, status = 200) => {
  nodes[0]!.answer = () => [status, text]
  nodes[1]!.answer = () => [status, text]
}

const header = {
  number: 33_801_078,
  txTrieRoot: '0000000000000000000000000000000000000000000000000000000000000000',
  witness_address: '41e61626ef01662b320a8ba38372e9db9cca940a3b',
  parentHash: '000000000203c375c7521ef953106e9a112e1902664a91becc5f40371a7397d7',
  version: 27,
  timestamp: 1_684_509_312_000,
}
const blockId = '000000000203c376d3d45ca88309982517d69ff0ec4d9a9f9f25536cebcdd76b'
const block = (raw_data: object = header) => JSON.stringify({blockID: blockId, block_header: {raw_data}})

test('each request is a POST to the path of its kind, at the URL of its kind, with the key', async () => {
  answers(block())
  await nodeOf().header(33_801_078)
  await nodeOf().solidHeader()
  expect(nodes[0]!.asked).toEqual([
    {path: '/wallet/getblock', body: {id_or_num: '33801078', detail: false}, key: 'a key'},
  ])
  expect(nodes[1]!.asked).toEqual([{path: '/walletsolidity/getblock', body: {detail: false}, key: 'a key'}])
})

test('a header has the id that is computed from it; integers may be texts; what is not found is undefined', async () => {
  answers(block({...header, timestamp: '1684509312000'}))
  expect(await nodeOf().header()).toMatchObject({height: 33_801_078, hash: blockId, time: 1_684_509_312_000})
  answers(block({...header, version: 28}))
  await expect(nodeOf().header()).rejects.toThrow(`has not the id ${blockId}`)
  answers('{}')
  expect(await nodeOf().header()).toBeUndefined()
  await expect(nodeOf().solidHeader()).rejects.toThrow(RetryableError)
})

test('a transaction has the id that is computed from it', async () => {
  const txID = '979e0823f455f3b67d65b351052f0265233f422792d31d5dbeb7c24737dd5556'
  const raw_data_hex =
    '0a02f49e2208bf6a4ff33cc1c16040a894b3ad9e2f5a68080112640a2d747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e5472616e73666572436f6e747261637412330a1541c33eeefda1059afba41d86759e281bcb851edfc812154158c85b7b6a5118beb3b23c14fcb2f3551a81d79a1880e1eb1770b0dbafad9e2f'
  const send = (txID: string) =>
    answers(JSON.stringify({block: [{...JSON.parse(block()), transactions: [{txID, raw_data_hex}]}]}))
  send(txID)
  expect(await nodeOf().blocks(33_801_078, 1)).toMatchObject([{transactions: [{txid: txID}]}])
  const unknown = {contractRet: 'A_NEW_ONE'}
  answers(JSON.stringify({block: [{...JSON.parse(block()), transactions: [{txID, raw_data_hex, ret: [unknown]}]}]}))
  expect(await nodeOf().blocks(33_801_078, 1)).toMatchObject([{transactions: [{result: 'UNKNOWN'}]}])
  send('11'.repeat(32))
  await expect(nodeOf().blocks(33_801_078, 1)).rejects.toThrow('has another id')
})

test('numbers above 2^53 stay exact, also beside texts of digits', async () => {
  const text = '{"a":9007199254740993,"b":"{\\"c\\":9007199254740993}","d":12.5,"e":1e3}'
  expect(parseJson(text)).toEqual({a: 9_007_199_254_740_993n, b: '{"c":9007199254740993}', d: 12.5, e: 1000})
  for (const number of ['9007199254740993', '-9007199254740993']) {
    const exact = BigInt(number)
    const texts = [number, `[1,${number}]`, `{"a": ${number}}`, `[\n${number}]`]
    expect(texts.map(parseJson)).toEqual([exact, [1, exact], {a: exact}, [exact]])
  }
  const internal = {note: '63616c6c', callValueInfo: [{callValue: 1}, {tokenId: '1002000'}, {}]}
  answers(
    JSON.stringify([{id: '22'.repeat(32), internal_transactions: [internal]}]).replace(':1}', ':9223372036854775807}'),
  )
  const [info] = await nodeOf().infos(1)
  expect(info!.internals[0]).toMatchObject({
    note: 'call',
    isRejected: false,
    values: [
      {amount: 2n ** 63n - 1n, token: ''},
      {amount: 0n, token: '1002000'},
      {amount: 0n, token: ''},
    ],
  })
})

test.each([
  [
    'an error with status 200',
    '{"Error":"class java.lang.Exception : busy"}',
    200,
    'the node refused wallet/getblock: class',
  ],
  ['a page', '<h1>404</h1>', 404, 'with status 404'],
  ['no JSON', '<h1>', 200, 'sent no JSON'],
  ['half of it', block().slice(0, 50), 200, 'sent no JSON'],
  ['something else', '[1]', 200, 'unexpected response'],
  ['too many requests', '{}', 429, 'with status 429'],
])('%s is an error that passes', async (_, text, status, message) => {
  answers(text, status)
  const asked = nodeOf().header()
  await expect(asked).rejects.toThrow(RetryableError)
  await expect(asked).rejects.toThrow(message)
})

test('a node that does not respond is an error that passes, without its URL', async () => {
  nodes[0]!.answer = () => undefined
  await expect(nodeOf(50).header()).rejects.toThrow(/^the node does not answer wallet\/getblock: TimeoutError$/)
})

test.each([403, 429, 503])('a node that answers with %d is left alone, twice as long each time', async status => {
  vi.useFakeTimers({toFake: ['Date']})
  const node = nodeOf()
  answers('{}', status)
  for (const pauseMs of [500, 1000, 2000]) {
    await expect(node.header()).rejects.toThrow(`with status ${status}`)
    vi.advanceTimersByTime(pauseMs - 1)
    await expect(node.header()).rejects.toThrow('gets none now')
    vi.advanceTimersByTime(1)
  }
  expect(nodes[0]!.asked).toHaveLength(3)
  answers(block())
  await node.header()
  answers('{}', status)
  await expect(node.header()).rejects.toThrow('with status')
  vi.advanceTimersByTime(500)
  await expect(node.header()).rejects.toThrow('with status')
})

const someAddress = 'TWer2Ygk5TEheHp3TPuYeqxmB6SsGZmaL6'

test('an account has its balance, from the blocks or from the solidified ones; a contract is known by its type', async () => {
  answers(`{"address":"41e2","balance":"9007199254740993"}`)
  expect(await nodeOf().account(someAddress)).toEqual({balance: 9_007_199_254_740_993n, staked: 0n, isContract: false})
  answers(`{"address":"41e2","type":"Contract"}`)
  expect(await nodeOf().account(someAddress, {solid: true})).toEqual({balance: 0n, staked: 0n, isContract: true})
  answers('{}')
  expect(await nodeOf().account(someAddress)).toBeUndefined()
  expect(nodes.map(({asked}) => asked.map(({path}) => path))).toEqual([
    ['/wallet/getaccount', '/wallet/getaccount'],
    ['/walletsolidity/getaccount'],
  ])
  expect(nodes[0]!.asked[0]!.body).toEqual({address: expect.stringMatching(/^41[0-9a-f]{40}$/)})
})

test('a call that a node has no time to try is tried again; if it never has, that proves nothing', async () => {
  const words = `class org.tron.core.vm.program.Program$OutOfTimeException : CPU timeout for 'PUSH1' operation executing`
  const noTime = JSON.stringify({result: {code: 'OTHER_ERROR', message: Buffer.from(words).toString('hex')}})
  const call = {from: someAddress, contract: someAddress, data: '70a08231'}
  nodes[0]!.answer = () => [200, nodes[0]!.asked.length < 3 ? noTime : '{"result":{"result":true},"energy_used":499}']
  expect(await nodeOf().try(call)).toMatchObject({failure: undefined, energy: 499n})
  answers(noTime)
  const trial = nodeOf().try(call, {solid: true})
  await expect(trial).rejects.toThrow(RetryableError)
  await expect(trial).rejects.toThrow('the node had no time to try a call: OTHER_ERROR: class org.tron')
  expect(nodes.map(({asked}) => asked.length)).toEqual([3, 3])
})

test.each([
  ['{"freeNetLimit":600}', true],
  ['{"freeNetLimit":600,"freeNetUsed":332}', true],
  ['{"freeNetLimit":600,"freeNetUsed":333}', false],
  ['{"freeNetLimit":600,"freeNetUsed":600,"NetLimit":300,"NetUsed":32}', true],
  ['{"freeNetLimit":600,"freeNetUsed":500,"NetLimit":200}', false], // of one kind, for all of it
  ['{}', false], // no account
])('with %s an account may send 268 bytes for nothing: %s', async (text, isFree) => {
  answers(text)
  expect(await nodeOf().isFree(someAddress, 268n)).toBe(isFree)
})

test('prices are parameters of the chain; one without a value is 0, and one that is missing is an error', async () => {
  const keys = ['getTransactionFee', 'getEnergyFee', 'getCreateAccountFee', 'getCreateNewAccountFeeInSystemContract']
  const of = (some: string[], value: object) => JSON.stringify({chainParameter: some.map(key => ({key, ...value}))})
  answers(of(keys, {value: 1000}))
  expect(await nodeOf().prices()).toEqual({byte: 1000n, energy: 1000n, activation: 2000n})
  answers(of(keys, {}))
  expect(await nodeOf().prices()).toEqual({byte: 0n, energy: 0n, activation: 0n})
  for (const key of keys) {
    answers(
      of(
        keys.filter(each => each !== key),
        {value: 1},
      ),
    )
    await expect(nodeOf().prices()).rejects.toThrow(`no parameter ${key}`)
  }
})

test.each([
  ['{"result":true,"code":"SUCCESS","txid":"ab"}', undefined],
  ['{"code":"DUP_TRANSACTION_ERROR","message":"dup"}', undefined], // it has it
  ['{"code":"TAPOS_ERROR","message":"no such block"}', 'TAPOS_ERROR: no such block'],
  ['{"result":false,"code":"TRANSACTION_EXPIRATION_ERROR"}', 'TRANSACTION_EXPIRATION_ERROR: '],
  [`{"code":"OTHER_ERROR","message":"${'m'.repeat(500)}"}`, `OTHER_ERROR: ${'m'.repeat(187)}`],
])('a node that answers a broadcast with %s says %s', async (text, said) => {
  answers(text)
  expect(await nodeOf().broadcast('0a')).toBe(said)
})

test('one node is asked until it fails some times in a row; then the other one is', async () => {
  const endpoints = nodes.map(({url}) => ({url, solidityUrl: url}))
  const both = new TronNodes({endpoints, apiKey: undefined})
  const ask = () => both.ask(node => node.header()).catch(() => {})
  const counts = () => nodes.map(({asked}) => asked.length)
  for (let i = 0; i < 3; i++) await ask()
  expect(counts()).toEqual([3, 0])
  nodes[0]!.answer = () => [500, '']
  for (let i = 0; i < 4; i++) await ask()
  nodes[0]!.answer = () => [200, '{}']
  await ask()
  nodes[0]!.answer = () => [500, '']
  for (let i = 0; i < 5; i++) await ask()
  expect(counts()).toEqual([13, 0])
  await ask()
  expect(counts()).toEqual([13, 1])
  for (let i = 0; i < 5; i++) await both.ask(() => Promise.reject(new Error('not believed'))).catch(() => {})
  await ask()
  expect(counts()).toEqual([14, 1])
})

test('the head of a chain is read for the status', async () => {
  answers(block())
  const settings = {endpoints: [{url: nodes[0]!.url, solidityUrl: nodes[0]!.url}]} as never
  const head = openHead(settings, 1000)
  expect(await head.height()).toBe(33_801_078)
  answers('{}')
  await expect(head.height()).rejects.toThrow('the node has no block')
  head.close()
})
