// The contracts of every local Tron chain: where they are, the manners of its USDT, and what a node says of calls.
import {afterEach, beforeEach, expect, test} from 'vitest'
import {z} from 'zod'
import {bytesOf} from '../../chains/tron/address.ts'
import {blockId} from '../../chains/tron/block.ts'
import {rawOf, type Transaction} from '../../chains/tron/transaction.ts'
import {answer} from './api.ts'
import {TronLocalChain} from './chain.ts'
import {call, creation, newAddress, payment, type Signing} from './client.ts'
import {contracts, faucet, faucetKey, genesis, issuerKey, parameters, solidLag} from './constants.ts'
import {firstContracts, issuerData, tokenBalanceData, tokenTransferData} from './contracts.ts'
import {createdAddress} from './invoke.ts'
import {TronJournal} from './journal.ts'
import {addressOfKey, newKey} from './keys.ts'

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const hexOf = (address: string) => hex(bytesOf(address))
const word = (value: bigint | number) => value.toString(16).padStart(64, '0')
const wordOf = (address: string) => hexOf(address).slice(2).padStart(64, '0')
const reverted = {result: true, message: hex(Buffer.from('REVERT opcode executed'))}
const on = (key: Uint8Array): Signing => ({key, on: {height: 0, hash: blockId(genesis)}})

let chain: TronLocalChain
beforeEach(() => {
  chain = new TronLocalChain(new TronJournal(':memory:', 'TRON'))
})
afterEach(() => chain.journal.close())

const ask = (method: string, question: object, kind = 'wallet') =>
  answer(chain, `/${kind}/${method}`, JSON.stringify(question))
const dryRun = (from: string, data: Uint8Array, more: object = {}) =>
  ask('triggerconstantcontract', {
    owner_address: hexOf(from),
    contract_address: hexOf(contracts.usdt),
    data: hex(data),
    ...more,
  })
/** Through the part of the API that shows solidified blocks, or all. */
function balance(address: string, kind = 'wallet'): bigint {
  const question = {
    owner_address: hexOf(address),
    contract_address: hexOf(contracts.usdt),
    function_selector: 'balanceOf(address)',
    parameter: wordOf(address),
  }
  const Answer = z.object({constant_result: z.tuple([z.string()])})
  const {constant_result} = Answer.parse(ask('triggerconstantcontract', question, kind))
  return BigInt(`0x${constant_result[0]}`)
}
function mine(transaction: Transaction) {
  chain.submit(rawOf(transaction))
  chain.mine()
  return ask('gettransactioninfobyid', {value: transaction.txid})
}
const usdt = (key: Uint8Array, data: Uint8Array) => mine(call(on(key), {contract: contracts.usdt, data}))
const pay = (key: Uint8Array, to: string, amount: bigint) => usdt(key, tokenTransferData(to, amount))
const order = (name: string, ...args: (string | bigint)[]) =>
  expect(usdt(issuerKey, issuerData(name, args))).toMatchObject({receipt: {result: 'SUCCESS'}})
/** A key whose account has TRX, and USDT. */
function holder(amount: bigint): Uint8Array {
  const key = newKey()
  mine(payment(on(faucetKey), addressOfKey(key), 10n ** 9n))
  pay(faucetKey, addressOfKey(key), amount)
  return key
}

test('their addresses are constants, also after block 1 was replaced (else: put these into constants.ts)', () => {
  expect(firstContracts()).toEqual(contracts)
  chain.mine(2)
  chain.reorg(2)
  for (const [name, address] of Object.entries(contracts)) {
    const shown = {disperse: 'Disperse', token: 'UnknownToken', usdt: 'TronUsdt'}[name]
    expect(ask('getcontract', {value: hexOf(address)})).toMatchObject({name: shown, contract_address: hexOf(address)})
    expect(ask('getaccount', {address: hexOf(address)})).toMatchObject({type: 'Contract'})
  }
  expect(ask('getcontract', {value: hexOf(faucet)})).toEqual({})
  expect(ask('getcontractinfo', {value: hexOf(faucet)})).toEqual({})
})

test('a payment of tokens that comes before block 1 is in it', () => {
  const to = newAddress()
  expect(pay(faucetKey, to, 5n)).toMatchObject({blockNumber: 1, receipt: {result: 'SUCCESS'}})
  expect(balance(to)).toBe(5n)
})

test('a good transfer of USDT answers false, asked and done; it is in a log, and solid when its block is', () => {
  chain.mine(solidLag)
  const to = newAddress()
  const answered = {constant_result: [word(0)], result: {result: true}}
  expect(dryRun(faucet, tokenTransferData(to, 7n))).toMatchObject(answered)
  expect(balance(to)).toBe(0n)
  const info = pay(faucetKey, to, 7n)
  expect(info).toMatchObject({contractResult: [word(0)], log: [{address: hexOf(contracts.usdt).slice(2)}]})
  expect([balance(to), balance(to, 'walletsolidity')]).toEqual([7n, 0n])
  chain.mine(solidLag)
  expect(balance(to, 'walletsolidity')).toBe(7n)
})

test('transferFrom answers true', () => {
  const [owner, spender, to] = [holder(10n), holder(0n), newAddress()]
  usdt(owner, Buffer.from(`095ea7b3${wordOf(addressOfKey(spender))}${word(4n)}`, 'hex'))
  const data = Buffer.from(`23b872dd${wordOf(addressOfKey(owner))}${wordOf(to)}${word(4n)}`, 'hex')
  expect(usdt(spender, data)).toMatchObject({contractResult: [word(1)], receipt: {result: 'SUCCESS'}})
  expect(usdt(spender, data)).toMatchObject({receipt: {result: 'REVERT'}})
  expect([balance(addressOfKey(owner)), balance(to)]).toEqual([6n, 4n])
})

test('its issuer can freeze an address, pause all, and take a fee; nobody else can', () => {
  const key = holder(1_000_000n)
  const [from, to] = [addressOfKey(key), newAddress()]
  order('addBlackList', from)
  expect(dryRun(from, tokenTransferData(to, 1n))).toMatchObject({result: reverted, constant_result: ['']})
  expect(pay(key, to, 1n)).toMatchObject({result: 'FAILED', receipt: {result: 'REVERT'}})
  order('removeBlackList', from)
  order('pause')
  expect(pay(key, to, 1n)).toMatchObject({receipt: {result: 'REVERT'}})
  order('unpause')
  order('setParams', 100n, 50n)
  expect(pay(key, to, 1000n)).toMatchObject({receipt: {result: 'SUCCESS'}})
  expect(balance(to)).toBe(990n)
  pay(key, to, 100_000n)
  expect(balance(to)).toBe(100_940n)
  expect(usdt(key, issuerData('pause'))).toMatchObject({receipt: {result: 'REVERT'}})
  expect(balance(from)).toBe(899_000n)
})

test('a reorganisation takes tokens back, or pays them again', () => {
  const [gone, kept] = [newAddress(), newAddress()]
  chain.mine()
  pay(faucetKey, gone, 1n)
  chain.reorg(1)
  expect(balance(gone)).toBe(0n)
  pay(faucetKey, kept, 2n)
  chain.reorg(1, {keepTransactions: true})
  expect(balance(kept)).toBe(2n)
})

test('a call that only asks is answered for one without an account, and changes nothing', () => {
  chain.mine()
  const stranger = newAddress()
  const asked = dryRun(stranger, tokenTransferData(faucet, 1n))
  expect(asked).toMatchObject({
    result: reverted,
    constant_result: [`4e487b71${word(0x11)}`], // Panic: arithmetic underflow
    transaction: {ret: [{ret: 'FAILED'}], visible: false},
  })
  expect(dryRun(faucet, tokenBalanceData(stranger), {call_value: 5})).toMatchObject({result: reverted})
  const message = (text: string) => hex(Buffer.from(text))
  expect(dryRun(stranger, tokenBalanceData(stranger), {call_value: 5})).toEqual({
    result: {
      code: 'CONTRACT_VALIDATE_ERROR',
      message: message('Validate InternalTransfer error, no OwnerAccount.'),
    },
  })
  expect(dryRun(faucet, Buffer.alloc(0), {contract_address: hexOf(stranger)})).toEqual({
    result: {code: 'CONTRACT_VALIDATE_ERROR', message: message('Smart contract is not exist.')},
  })
})

test('a call that fails in another way than by a revert is answered with nothing but its error', () => {
  const from = addressOfKey(faucetKey)
  const bytecode = Uint8Array.of(0x60, 3, 0x60, 0, 0x53, 0x60, 1, 0x60, 0, 0xf3) // its code is SUB alone
  const made = creation(on(faucetKey), {name: 'Wrong', bytecode})
  mine(made)
  const contract = createdAddress(Buffer.from(made.txid, 'hex'), from)
  expect(ask('getcontractinfo', {value: hexOf(contract)})).toMatchObject({runtimecode: '03'})
  const text = 'class org.tron.core.vm.program.Program$StackTooSmallException : Expected stack size 2 but actual 0;'
  expect(dryRun(from, Buffer.alloc(0), {contract_address: hexOf(contract)})).toEqual({
    result: {code: 'OTHER_ERROR', message: hex(Buffer.from(text))},
  })
  expect(mine(call(on(faucetKey), {contract, data: Buffer.alloc(0), feeLimit: 100_000n}))).toMatchObject({
    receipt: {result: 'STACK_TOO_SMALL', energy_fee: 100_000},
    contractResult: [''],
    result: 'FAILED',
  })
})

test('the energy of a busy contract costs more, asked and done, by the factor that a node names', () => {
  chain.mine()
  const key = holder(10n)
  const to = newAddress()
  pay(key, to, 1n)
  const before = z.object({energy_used: z.int()}).parse(dryRun(addressOfKey(key), tokenTransferData(to, 1n)))
  chain.setEnergyFactor(contracts.usdt, 10_000)
  const used = 2 * before.energy_used
  expect(ask('getcontractinfo', {value: hexOf(contracts.usdt)})).toMatchObject({
    contract_state: {energy_factor: 10_000},
  })
  expect(dryRun(addressOfKey(key), tokenTransferData(to, 1n))).toMatchObject({
    energy_used: used,
    energy_penalty: before.energy_used,
  })
  expect(pay(key, to, 1n)).toMatchObject({
    receipt: {energy_usage_total: used, energy_penalty_total: before.energy_used},
  })
})

test('a fee limit above the highest is refused; one of nothing buys no energy', () => {
  chain.mine()
  const data = tokenTransferData(newAddress(), 1n)
  const limited = (feeLimit: bigint) => call(on(faucetKey), {contract: contracts.usdt, data, feeLimit})
  expect(() => mine(limited(parameters.getMaxFeeLimit + 1n))).toThrow('feeLimit')
  expect(mine(limited(0n))).toMatchObject({result: 'FAILED', receipt: {result: 'OUT_OF_ENERGY'}})
})
