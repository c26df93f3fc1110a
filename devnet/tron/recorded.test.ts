// The local chain against java-tron (test/recorded/README.md): the same contracts, called in the same way, must answer
// the same, to the last unit of energy.
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {z} from 'zod'
import {addressOf, bytesOf} from '../../chains/tron/address.ts'
import {blockId} from '../../chains/tron/block.ts'
import {Message} from '../../chains/tron/protobuf.ts'
import {parseRawData, rawDataOf, rawOf, reference, type Transaction} from '../../chains/tron/transaction.ts'
import {recorded} from '../../test/support/recorded.ts'
import {answer} from './api.ts'
import {TronLocalChain} from './chain.ts'
import {call, creation, payment, type Signing, staking} from './client.ts'
import {faucetKey, genesis, parameters} from './constants.ts'
import {create, createdAddress, type Invoked, trigger} from './invoke.ts'
import {TronJournal} from './journal.ts'
import {internalJson, rawDataJson} from './json/blocks.ts'
import {addressOfKey, newKey, sign} from './keys.ts'
import {newAccount, State} from './state.ts'
import {shown, types} from './transaction-types.ts'

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const bytes = (text: string) => Buffer.from(text, 'hex')
const textOf = (address: string) => addressOf(bytes(address))

const Json = z.record(z.string(), z.unknown())
const Called = z.object({
  constant: Json.optional(),
  transaction: z.object({txID: z.string(), raw_data_hex: z.string()}),
  info: Json,
})
const Deployed = z.object({bytecode: z.string(), deployInfo: Json})

/** The parameters of the network that was recorded. */
const theirs = {
  getEnergyFee: 210n,
  getFreeNetLimit: 5000n,
  getCreateNewAccountFeeInSystemContract: 0n,
  getMaxFeeLimit: 1_000_000_000n,
}
const ours = {...parameters}
beforeAll(() => void Object.assign(parameters, theirs))
afterAll(() => void Object.assign(parameters, ours))

/** What only one network or one moment has. */
const passing = new Set(
  `id txID blockNumber blockTimeStamp ref_block_bytes ref_block_hash expiration timestamp raw_data_hex packingFee`.split(
    ' ',
  ),
)

/** An answer without what passes, and with other names of the same accounts. */
function comparable(json: unknown, names: Map<string, string> = new Map()): unknown {
  let text = JSON.stringify(json, (key, value) => (passing.has(key) ? undefined : value))
  for (const [their, our] of names) text = text.replaceAll(their, our)
  return JSON.parse(text)
}

describe.each([
  {folder: 'trc20', isStaked: false},
  {folder: 'trc20-staked', isStaked: true},
])('a token with the manners of USDT answers as on java-tron ($folder)', ({folder, isStaked}) => {
  const zion = newKey()
  const user = newKey()
  const other = newKey()
  const names = new Map<string, string>()
  let chain: TronLocalChain
  let token: string
  const on = (key: Uint8Array): Signing => ({key, on: {height: 0, hash: blockId(genesis)}})
  const nameKey = (their: string, key: Uint8Array) => names.set(their, hex(bytesOf(addressOfKey(key))).slice(2))
  const theirAddresses = isStaked
    ? {token: 'e42ce78c0f7044237fb3e36cfd93d1e23498f53f', user: '6bd4eaa78e97f8590c0241c56ed26fdabf23fd50'}
    : {token: '90b7443d0139053eb5ec3d12609d699d9eeaf40f', user: '7d0abf92a8e2dc107af3a4dc269fd05aaacf33fe'}
  const theirOther = isStaked ? '05f5f58c3b33472f9497e7bf2d810e9de08d1e12' : '94427c54789ddbe280ceba398b741391d413230b'

  function mine(transaction: Transaction): unknown {
    chain.submit(rawOf(transaction))
    chain.mine()
    return ask('gettransactioninfobyid', {value: transaction.txid})
  }
  const ask = (method: string, question: object) => answer(chain, `/wallet/${method}`, JSON.stringify(question))
  const issue = (data: string) =>
    expect(mine(call(on(zion), {contract: token, data: bytes(data), feeLimit: 10n ** 9n}))).not.toHaveProperty('result')

  /** Asks what a recorded transaction would do, and sends it. */
  function again(name: string): void {
    const {constant, transaction, info} = recorded(`tron/${folder}/${name}`, Called)
    const renamed = z.string().parse(comparable(transaction.raw_data_hex, names))
    const {feeLimit, contract} = parseRawData(bytes(renamed))
    if (constant) {
      const question = {
        owner_address: hex(contract.message.bytes(1)),
        contract_address: hex(contract.message.bytes(2)),
        data: hex(contract.message.bytes(4)),
      }
      expect(comparable(ask('triggerconstantcontract', question)), `asked: ${name}`).toEqual(
        comparable(constant, names),
      )
    }
    const any = new Message(new Message(new Message(bytes(renamed)).all(11)[0]!).bytes(2))
    const typeName = Buffer.from(any.bytes(1)).toString().split('.').at(-1)!
    const times = {timestamp: Date.now(), expiration: Date.now() + 60_000}
    const rawData = rawDataOf(
      {...reference(0, blockId(genesis)), ...times, feeLimit},
      typeName,
      contract.type,
      any.bytes(2),
    )
    const sent = mine(sign(rawData, contract.owner === addressOfKey(zion) ? zion : user))
    expect(comparable(sent), `sent: ${name}`).toEqual(comparable(info, names))
  }

  beforeAll(() => {
    chain = new TronLocalChain(new TronJournal(':memory:', 'TRON'))
    chain.mine()
    nameKey('f72c33c85af349b982e608ce36312fe66bb4eee3', zion)
    nameKey(theirAddresses.user, user)
    nameKey(theirOther, other)
    mine(payment(on(faucetKey), addressOfKey(zion), 10n ** 14n))
    mine(staking(on(zion), {action: 'freeze', resource: 'bandwidth', amount: 10n ** 13n}))
    if (isStaked) mine(staking(on(zion), {action: 'freeze', resource: 'energy', amount: 10n ** 13n}))
  })
  afterAll(() => chain.journal.close())

  test('when it is created', () => {
    const {bytecode, deployInfo} = recorded(`tron/${folder}/contract`, Deployed)
    const made = creation(on(zion), {name: 'Usd', bytecode: bytes(bytecode), feeLimit: 10n ** 9n})
    token = createdAddress(bytes(made.txid), addressOfKey(zion))
    names.set(theirAddresses.token, hex(bytesOf(token)).slice(2))
    const {receipt, ...info} = Json.parse(comparable(mine(made)))
    const {receipt: theirReceipt, ...theirInfo} = Json.parse(comparable(deployInfo, names))
    expect(info).toEqual(theirInfo)
    // The recorded transaction has the contract's interface as well, and so more bytes.
    expect({...Json.parse(receipt), net_usage: 3051}).toEqual(theirReceipt)
  })

  test('when it is paid with, to a new holder and to one that has some', () => {
    again('transfer-to-new-holder')
    again('transfer-to-holder')
  })

  test('when an address without an account is asked for', () => {
    if (isStaked) return
    const {transaction, ...theirs} = recorded(`tron/${folder}/constant-call-of-address-without-account`, Json)
    const {contract} = parseRawData(bytes(z.object({raw_data_hex: z.string()}).parse(transaction).raw_data_hex))
    const asked = ask('triggerconstantcontract', {
      owner_address: hex(bytesOf(addressOfKey(user))),
      contract_address: hex(bytesOf(token)),
      function_selector: 'transfer(address,uint256)',
      parameter: (comparable(hex(contract.message.bytes(4)), names) as string).slice(8),
    })
    expect(comparable(asked)).toEqual(comparable({transaction, ...theirs}, names))
  })

  test('when all of it is swept, without enough energy and with it, or with energy that was lent', () => {
    mine(payment(on(faucetKey), addressOfKey(user), 1_000_000n))
    if (!isStaked) {
      again('sweep-out-of-energy')
      mine(payment(on(faucetKey), addressOfKey(user), 100_000_000n))
      again('sweep-whole-balance')
    }
    again('refill')
    if (isStaked) {
      again('delegate-energy')
      expect(ask('getaccountresource', {address: hex(bytesOf(addressOfKey(user)))})).toMatchObject({
        EnergyLimit: 4_734_350, // 500,000 of 19,010,000,000 TRX
      })
    }
    again('sweep-with-delegated-energy') // in trc20/ the node did not know yet that it may use it
    if (isStaked) again('undelegate-energy')
    again('refill2')
  })

  test('when its issuer meddles, and when the call asks for too much', () => {
    const who = `${'0'.repeat(24)}${names.get(theirAddresses.user)}`
    mine(payment(on(faucetKey), addressOfKey(user), 100_000_000n))
    issue(`404e5129${who}${'1'.padStart(64, '0')}`) // blacklist(address,bool)
    again('sweep-blacklisted')
    issue(`404e5129${who}${'0'.padStart(64, '0')}`)
    issue(`69fe0e2d${'a'.padStart(64, '0')}`) // setFee(uint256): ten hundredths of a per cent
    again('transfer-with-token-fee')
    again('self-transfer')
    again('more-than-balance')
  })

  test('when its data are asked for', () => {
    const theirs = recorded(`tron/${folder}/contract-info`, Json)
    const {runtimecode, smart_contract} = Json.parse(ask('getcontractinfo', {value: hex(bytesOf(token))}))
    expect(runtimecode).toBe(theirs.runtimecode)
    // Here it was created without its interface.
    const {abi: _abi, ...rest} = Json.parse(comparable(theirs.smart_contract, names))
    expect(smart_contract).toEqual({...rest, abi: {}})
  })
})

const Blocks = z.object({
  response: z.object({
    block: z.array(z.object({transactions: z.array(z.object({txID: z.string(), raw_data_hex: z.string()}))})),
  }),
})
const Infos = z.object({response: z.array(Json)})

/** The transactions of a recorded block, each with what came of it. */
function blockOf(block: string, infos: string) {
  const {transactions} = recorded(block, Blocks).response.block[0]!
  const found = recorded(infos, Infos).response
  return transactions.map((transaction, i) => ({...transaction, info: found[i]!}))
}

/** What came of it on this side, in the words of an info. */
function shownOf({contract, result, data, energy, energyFee, message, internals}: Invoked): object {
  return {
    contract_address: hex(bytesOf(contract)),
    contractResult: [hex(data)],
    receipt: {energy_fee: Number(energyFee), energy_usage_total: Number(energy), result},
    ...(message && {result: 'FAILED', resMessage: hex(Buffer.from(message))}),
    ...(internals.length && {internal_transactions: internals.map(internalJson)}),
  }
}

test('contracts that call, create and end others do so as on java-tron, with the same internal transactions and hashes', () => {
  const zion = textOf('41f72c33c85af349b982e608ce36312fe66bb4eee3')
  const state = new State({account: () => undefined, other: () => undefined})
  state.setAccount(zion, {...newAccount, balance: 10n ** 15n})
  state.add(textOf('4176e958f7075fc8eaace5623efc93eb13513676ea'), 0n) // the first transaction of block 62 made it
  const calls = [
    ...blockOf('tron/block-CreateSmartContract', 'tron/infos-CreateSmartContract'),
    ...blockOf('tron/blocks-with-contract-calls', 'tron/infos-with-internal-transactions').slice(1),
  ]
  expect(calls).toHaveLength(9)
  for (const {txID, raw_data_hex, info} of calls) {
    const {contract, feeLimit} = parseRawData(bytes(raw_data_hex))
    const {type, message} = contract
    const surroundings = {height: 62, time: 0, witness: '', hashAt: () => undefined, energyFactor: () => 0}
    const invocation = {state, owner: zion, txid: bytes(txID), feeLimit, now: 0, surroundings}
    const called = () => ({contract: addressOf(message.bytes(2)), value: message.integer(3), data: message.bytes(4)})
    const invoked = type === types.create ? create(invocation, message) : trigger(invocation, called())
    const {fee: _fee, receipt, ...rest} = Json.parse(comparable(info))
    const {net_usage: _usage, net_fee: _net, ...energy} = Json.parse(receipt)
    expect(shownOf(invoked), txID).toEqual({...rest, receipt: energy})
  }
})

test.each([
  ...['CreateSmartContract', 'DelegateResourceContract', 'FreezeBalanceV2Contract', 'UnfreezeBalanceV2Contract'],
  'trc20-transfer',
])('transactions are shown as java-tron shows them (%s)', name => {
  const Shown = z.object({raw_data: Json, raw_data_hex: z.string()})
  const Block = z.object({response: z.object({block: z.tuple([z.object({transactions: z.array(Shown)})])})})
  const {transactions} = recorded(`tron/block-${name}`, Block).response.block[0]
  const known = transactions.filter(({raw_data_hex: raw}) => shown.has(parseRawData(bytes(raw)).contract.type))
  expect(known).not.toEqual([])
  for (const {raw_data, raw_data_hex} of known)
    expect(rawDataJson(bytes(raw_data_hex))).toEqual({raw_data, raw_data_hex})
})
