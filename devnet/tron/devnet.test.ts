// The local Tron chain: a wallet that knows nothing of it (tronweb) pays on it; what a block must not hold is refused;
// data that a client has seen survives any kill; reorganisations have the requested effect.
import {once} from 'node:events'
import {mkdtemp, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {TronWeb, type Types, utils} from 'tronweb'
import {afterEach, beforeEach, describe, expect, test} from 'vitest'
import {chain as registered} from '../../chains/registry.ts'
import {addressOf} from '../../chains/tron/address.ts'
import {blockId, txTrieRoot} from '../../chains/tron/block.ts'
import {rawOf, type Transaction} from '../../chains/tron/transaction.ts'
import {type Started, startDevnet} from '../start.ts'
import {answer} from './api.ts'
import {TronLocalChain} from './chain.ts'
import {call as callOf, dispersal, newAddress, payment, type TronClient} from './client.ts'
import {contracts, faucet, faucetBalance, faucetKey, genesis, solidLag} from './constants.ts'
import compiled from './contracts.json' with {type: 'json'}
import {tokenTransferData} from './contracts.ts'
import {tron} from './family.ts'
import {TronJournal} from './journal.ts'
import {addressOfKey, newKey} from './keys.ts'

const dayMs = 86_400_000
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

test('settings know the local network by its first block', () => {
  const known = registered('TRON')
  if (known.family !== 'tron') throw new Error('TRON is of another family')
  expect(`0x${blockId(genesis).slice(-8)}`).toBe(known.networks.local.reference)
})

describe('in this process', () => {
  let chain: TronLocalChain
  const on = {height: 0, hash: blockId(genesis)}
  const fromFaucet = (to: string, amount: bigint, more: {expiration?: number} = {}) =>
    payment({key: faucetKey, on, ...more}, to, amount)
  const submit = (transaction: Transaction) => chain.submit(rawOf(transaction))
  const balance = (address: string) => chain.journal.account(address, chain.head.height)?.balance
  const info = (txid: string) => answer(chain, '/wallet/gettransactioninfobyid', JSON.stringify({value: txid}))
  /** Mines it; its code if it is refused. */
  function codeOf(transaction: Transaction): string {
    try {
      submit(transaction)
    } catch (error) {
      return (error as {code: string}).code
    }
    chain.mine()
    return chain.journal.heightOf(transaction.txid) === undefined ? 'forgotten' : 'mined'
  }

  beforeEach(() => {
    chain = new TronLocalChain(new TronJournal(':memory:', 'TRON'))
    chain.mine()
  })
  afterEach(() => chain.journal.close())

  test('a payment to a new account activates it; then bandwidth is free twice a day, and after that it is burnt', () => {
    const key = newKey()
    const [payer, to] = [addressOfKey(key), newAddress()]
    const first = submit(fromFaucet(payer, 10_000_000n))
    submit(fromFaucet(to, 1n))
    chain.mine()
    expect(info(first)).toMatchObject({fee: 1_100_000})
    expect([balance(payer), balance(faucet)]).toEqual([10_000_000n, faucetBalance - 10_000_001n - 2_200_000n])
    const fees = [1n, 2n, 3n].map(amount => {
      const txid = submit(payment({key, on}, to, amount))
      chain.mine()
      return info(txid)
    })
    expect(fees).toMatchObject([{receipt: {net_usage: 265}}, {receipt: {net_usage: 265}}, {fee: 265_000}])
    expect(balance(payer)).toBe(10_000_000n - 6n - 265_000n)
    chain.mine(1, {laterMs: dayMs})
    const again = submit(payment({key, on, expiration: Date.now() + 1.5 * dayMs}, to, 4n))
    chain.mine(1, {laterMs: dayMs})
    expect(info(again)).toMatchObject({receipt: {net_usage: 265}})
  })

  test.each<[string, string, () => Transaction]>([
    [
      'with a wrong key',
      'SIGERROR',
      () => ({...fromFaucet(newAddress(), 1n), signatures: payment({key: newKey(), on}, faucet, 1n).signatures}),
    ],
    ['without a signature', 'SIGERROR', () => ({...fromFaucet(newAddress(), 1n), signatures: []})],
    [
      'that names a block of another chain',
      'TAPOS_ERROR',
      () => payment({key: faucetKey, on: {height: 1, hash: on.hash}}, newAddress(), 1n),
    ],
    [
      'that has expired',
      'TRANSACTION_EXPIRATION_ERROR',
      () => fromFaucet(newAddress(), 1n, {expiration: chain.block(1).header.time}),
    ],
    [
      'that lives longer than a day',
      'TRANSACTION_EXPIRATION_ERROR',
      () => fromFaucet(newAddress(), 1n, {expiration: chain.block(1).header.time + dayMs + 1}),
    ],
    ['of more than there is', 'CONTRACT_VALIDATE_ERROR', () => fromFaucet(newAddress(), faucetBalance)],
    ['of nothing', 'CONTRACT_VALIDATE_ERROR', () => fromFaucet(newAddress(), 0n)],
    ['to its owner', 'CONTRACT_VALIDATE_ERROR', () => fromFaucet(faucet, 1n)],
    ['to a contract', 'CONTRACT_VALIDATE_ERROR', () => fromFaucet(contracts.disperse, 1n)],
    ['of an account that does not exist', 'CONTRACT_VALIDATE_ERROR', () => payment({key: newKey(), on}, faucet, 1n)],
  ])('a payment %s is refused, and in no block', (_, code, make) => {
    const transaction = make()
    expect(codeOf(transaction)).toBe(code)
    chain.mine()
    chain.reorg(1, {inside: [[rawOf(transaction)]]})
    expect(chain.block(2).transactions).toEqual([])
  })

  test('a transaction is taken once, and in the last block before its expiration', () => {
    const head = chain.block(1).header.time
    const last = fromFaucet(newAddress(), 1n, {expiration: head + 1})
    expect(codeOf(last)).toBe('mined') // its time is past the expiration; the time of the block below counts
    expect(codeOf(last)).toBe('DUP_TRANSACTION_ERROR')
    const late = fromFaucet(newAddress(), 1n, {expiration: Date.now() + 60_000})
    submit(late)
    chain.mine(1, {only: [], laterMs: 60_001})
    expect(chain.waits(late.txid)).toBe(false)
    expect(codeOf(late)).toBe('TRANSACTION_EXPIRATION_ERROR')
  })

  test('equal payments within a millisecond are two', () => {
    const to = newAddress()
    submit(fromFaucet(to, 5n))
    submit(fromFaucet(to, 5n))
    chain.mine()
    expect(balance(to)).toBe(10n)
  })

  test('a contract moves what comes with a call; a failed call costs its fee and moves nothing', () => {
    const [a, b] = [newAddress(), newAddress()]
    const outputs = [
      {to: a, amount: 5n},
      {to: b, amount: 7n},
    ]
    const paid = submit(dispersal({key: faucetKey, on}, outputs))
    const failed = submit(dispersal({key: faucetKey, on}, outputs, 11n))
    chain.mine()
    expect([balance(a), balance(b)]).toEqual([5n, 7n])
    expect(info(paid)).toMatchObject({
      receipt: {result: 'SUCCESS'},
      internal_transactions: [{callValueInfo: [{callValue: 5}]}, {callValueInfo: [{callValue: 7}]}],
    })
    expect(info(failed)).toMatchObject({
      result: 'FAILED',
      receipt: {result: 'REVERT'},
      internal_transactions: [{rejected: true, callValueInfo: [{callValue: 5}]}], // the second one was not tried
    })
    const fees = [paid, failed].map(txid => BigInt((info(txid) as {fee: number}).fee))
    expect(balance(faucet)).toBe(faucetBalance - 12n - fees[0]! - fees[1]!)
  })

  test('a call that may not use enough energy fails; one of no contract is refused; a token writes a log', () => {
    const call = (contract: string, feeLimit: bigint, data: Uint8Array) =>
      callOf({key: faucetKey, on}, {contract, feeLimit, data})
    const data = tokenTransferData(newAddress(), 9n)
    const short = call(contracts.token, 1_000_000n, data)
    const good = call(contracts.token, 5_000_000n, data)
    const wrong = call(contracts.token, 5_000_000n, data.subarray(0, 10))
    expect([short, good, wrong].map(codeOf)).toEqual(['mined', 'mined', 'mined'])
    expect(info(short.txid)).toMatchObject({result: 'FAILED', receipt: {result: 'OUT_OF_ENERGY'}})
    expect(info(good.txid)).toMatchObject({
      log: [{topics: [expect.any(String), expect.any(String), expect.any(String)]}],
    })
    expect(info(wrong.txid)).toMatchObject({result: 'FAILED', receipt: {result: 'REVERT'}})
    expect(codeOf(call(newAddress(), 5_000_000n, data))).toBe('CONTRACT_VALIDATE_ERROR')
  })

  test('a reorganisation takes balances back; what is kept comes one block later; blocks are as many as are given', () => {
    const [a, b] = [newAddress(), newAddress()]
    const [first, second] = [submit(fromFaucet(a, 1n)), fromFaucet(b, 2n)]
    chain.mine()
    submit(second)
    chain.mine()
    const {hash, height} = chain.head
    chain.reorg(2, {keepTransactions: true})
    expect([chain.journal.heightOf(first), chain.journal.heightOf(second.txid)]).toEqual([3, 4])
    expect(chain.head.height).toBe(height + 1)
    chain.reorg(3, {inside: [[], [rawOf(second), rawOf(second)]]})
    expect(chain.head.height).toBe(height)
    expect(chain.head.hash).not.toBe(hash)
    expect([balance(a), balance(b), balance(faucet)]).toEqual([undefined, 2n, faucetBalance - 2n - 1_100_000n])
    expect(chain.block(height).transactions).toHaveLength(1)
  })

  test('the solidified block trails the head, and shows neither newer blocks nor their accounts', () => {
    const to = newAddress()
    const txid = submit(fromFaucet(to, 1n))
    const {height} = chain.mine()
    const question = JSON.stringify({value: txid})
    chain.mine(solidLag - 1)
    expect(answer(chain, '/walletsolidity/gettransactionbyid', question)).toEqual({})
    expect(answer(chain, '/wallet/gettransactionbyid', question)).toMatchObject({txID: txid})
    chain.mine()
    expect(answer(chain, '/walletsolidity/gettransactionbyid', question)).toMatchObject({txID: txid})
    expect(answer(chain, '/walletsolidity/getnowblock', '')).toMatchObject({block_header: {raw_data: {number: height}}})
  })

  test('what is not there, or not understood, is answered as by a node', () => {
    const ask = (method: string, question: object) => answer(chain, `/wallet/${method}`, JSON.stringify(question))
    expect(ask('getblockbynum', {num: 2})).toEqual({})
    expect(ask('getblock', {id_or_num: 'ab'})).toEqual({})
    expect(ask('getblockbylimitnext', {startNum: 2, endNum: 5})).toEqual({block: []})
    expect(ask('getblockbylimitnext', {startNum: 0, endNum: 101})).toEqual({})
    expect(ask('gettransactioninfobyblocknum', {num: 9})).toEqual([])
    expect(ask('getblock', {id_or_num: '0'})).not.toHaveProperty('block_header.raw_data.number')
    expect(ask('getblock', {id_or_num: {}})).toHaveProperty('Error')
    expect(ask('nothing', {})).toBeUndefined()
  })

  test('a journal of an earlier version is refused, not misread', async () => {
    const dir = await mkdtemp(path.join(tmpdir(), 'sluice-devnet-tron-'))
    const file = path.join(dir, 'chain.sqlite')
    const journal = new TronJournal(file, 'TRON')
    new TronLocalChain(journal).mine()
    journal.setMeta('format', '1')
    journal.close()
    expect(() => new TronJournal(file, 'TRON')).toThrow('earlier version')
    await rm(dir, {recursive: true})
  })

  test('every header commits to its transactions', () => {
    for (let i = 0; i < 3; i++) submit(fromFaucet(newAddress(), 1n))
    chain.mine()
    const {header, transactions, hash} = chain.block(2)
    expect(transactions).toHaveLength(3)
    expect(header.txTrieRoot).toBe(txTrieRoot(transactions.map(({transaction}) => transaction)))
    expect(blockId(header)).toBe(hash)
  })
})

describe('as a process', {timeout: 60_000}, () => {
  let dir: string
  let started: Started<TronClient>
  beforeEach(async () => {
    dir = await mkdtemp(path.join(tmpdir(), 'sluice-devnet-tron-'))
    started = await start()
  })
  afterEach(async () => {
    await started.stop()
    await rm(dir, {recursive: true, force: true})
  })
  const start = (blockIntervalMs = 0) => startDevnet(tron, {chain: 'TRON', dir, blockIntervalMs})

  /** Signs with a key what tronweb built, and sends it; what came of it. */
  async function send(wallet: TronWeb, key: Uint8Array, built: Types.Transaction): Promise<Types.TransactionInfo> {
    const signed = await wallet.trx.sign(built, hex(key))
    expect(await wallet.trx.sendRawTransaction(signed as never)).toMatchObject({result: true, txid: built.txID})
    const bytes = utils.transaction.txJsonToPb(signed as never)
    for (const signature of signed.signature) bytes.addSignature(Uint8Array.from(Buffer.from(signature, 'hex')))
    const again = await wallet.trx.sendHexTransaction(hex(bytes.serializeBinary()))
    expect(again).toMatchObject({code: 'DUP_TRANSACTION_ERROR', txid: built.txID})
    await started.client.mined(built.txID)
    return await wallet.trx.getUnconfirmedTransactionInfo(built.txID)
  }

  test('tronweb pays, and sees what came of it', async () => {
    const {client, devnet} = started
    const key = newKey()
    const [from, to] = [addressOfKey(key), newAddress()]
    await client.send({token: 'TRX', to: from, amount: '5'})
    const wallet = new TronWeb({fullHost: devnet.url})
    expect(await wallet.trx.getUnconfirmedBalance(from)).toBe(5_000_000)
    const built = await wallet.transactionBuilder.sendTrx(to, 1_000_000, from)
    expect(await send(wallet, key, built)).toMatchObject({id: built.txID, fee: 1_100_000})
    expect(await client.balance('TRX', to)).toBe(1_000_000n)
    expect(await client.balance('TRX', from)).toBe(2_900_000n)
  })

  test('tronweb creates a contract where the chain creates it, stakes, lends, and calls', async () => {
    const {client, devnet} = started
    const [key, user] = [newKey(), newKey()]
    const [from, payer] = [addressOfKey(key), addressOfKey(user)]
    await client.send({token: 'TRX', to: from, amount: '100000'})
    await client.send({token: 'TRX', to: payer, amount: '1'})
    const wallet = new TronWeb({fullHost: devnet.url})
    const {transactionBuilder} = wallet
    const {abi, bytecode} = compiled.UnknownToken
    const made = await transactionBuilder.createSmartContract({abi, bytecode, feeLimit: 1_000_000_000}, from)
    const contract = made.contract_address
    expect(await send(wallet, key, made)).toMatchObject({contract_address: contract, receipt: {result: 'SUCCESS'}})
    await send(wallet, key, await transactionBuilder.freezeBalanceV2(50_000_000_000, 'ENERGY', from))
    const lent = await transactionBuilder.delegateResource(40_000_000_000, payer, 'ENERGY', from)
    await send(wallet, key, lent)
    const parameters = [
      {type: 'address', value: from},
      {type: 'uint256', value: 7},
    ]
    const transfer = 'transfer(address,uint256)'
    const asked = await transactionBuilder.triggerConstantContract(contract, transfer, {}, parameters, payer)
    expect(asked.constant_result).toEqual(['1'.padStart(64, '0')])
    const on = {height: 0, hash: blockId(genesis)}
    const data = tokenTransferData(from, 7n)
    const paid = callOf({key: user, on}, {contract: addressOf(Buffer.from(contract, 'hex')), data})
    await client.submit(rawOf(paid))
    await client.mined(paid.txid)
    expect(await wallet.trx.getUnconfirmedTransactionInfo(paid.txid)).toMatchObject({
      receipt: {energy_usage: asked.energy_used, energy_usage_total: asked.energy_used},
    })
    expect(await wallet.trx.getAccountResources(payer)).toMatchObject({EnergyUsed: asked.energy_used})
  })

  test('continues after kill -9 with the same blocks, the same accounts, and what waits', async () => {
    const {client} = started
    const [mined, waiting] = [newAddress(), newAddress()]
    await client.send({token: 'TRX', to: mined, amount: '3'})
    await client.reorg(1, {keepTransactions: true})
    const txid = await client.transfer({token: 'TRX', to: waiting, amount: '4'})
    const tokens = await client.transfer({token: 'USDT', to: mined, amount: '1.5'})
    await client.setEnergyFactor(contracts.usdt, 5000)
    const head = await client.head()
    const exited = once(started.process, 'exit')
    started.process.kill('SIGKILL')
    await exited
    const {url} = started.devnet
    started = await start()
    expect(started.devnet.url).toBe(url)
    expect(await started.client.head()).toEqual(head)
    expect(await started.client.balance('TRX', mined)).toBe(3_000_000n)
    await started.client.mined(txid)
    expect(await started.client.balance('TRX', waiting)).toBe(4_000_000n)
    await started.client.mined(tokens)
    expect(await started.client.balance('USDT', mined)).toBe(1_500_000n)
    await started.client.send({token: 'USDT', to: waiting, amount: '2'})
    expect(await started.client.balance('USDT', waiting)).toBe(2_000_000n)
  })

  test('says what it does not do', async () => {
    const {client} = started
    const to = newAddress()
    await expect(client.transfer({token: 'TRX', to, amount: '1', feeRate: 2})).rejects.toThrow('no fee rates')
    await expect(client.transfer({token: 'USDC', to, amount: '1'})).rejects.toThrow('has no USDC')
    await expect(client.transfer({token: 'TRX', to: 'T1', amount: '1'})).rejects.toThrow()
    await expect(client.submit('00')).rejects.toThrow()
    await expect(client.reorg(9)).rejects.toThrow('cannot replace 9 blocks')
    await expect(client.rpc('eth_blockNumber')).rejects.toThrow('there is no method')
  })
})
