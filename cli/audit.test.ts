// sluice audit finds what it claims to find: each check is right on a real database with a payout that was paid, and wrong once its
// invariant is broken there; and a coin more or less on a real chain is a difference.
import {encodeFunctionData, numberToHex} from 'viem'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {Anvil, abis} from '../test/support/anvil.ts'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {CommandLine} from '../test/support/command-line.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {beginToPay, includeFinally, makeTreasury, networkFee, topUp} from '../test/support/payouts.ts'
import {makeMerchant, makeUser, type TestUser} from '../test/support/people.ts'
import {checks} from './audit-checks.ts'

const ether = 10n ** 18n
let db: TestDatabase
let anvil: Anvil
let eth: ChainWriter
let commandLine: CommandLine
let user: TestUser
let treasury: string

// A deposit of 10 ether and one of 250 USDC; 9.9 ether were paid out, from the operator's own.
beforeAll(async () => {
  db = await testDatabase()
  anvil = await Anvil.start()
  commandLine = new CommandLine(db, {ETH: {rpc_url: anvil.wsUrl, local: true, tokens: {USDC: anvil.usdc}}})
  eth = await ChainWriter.open(db, 'ETH')
  treasury = await makeTreasury(db)
  await topUp(eth, treasury, 'ETH', 100n * ether)
  const merchant = await makeMerchant(db)
  user = await makeUser(db, merchant)
  await eth.write({
    add: [
      [
        {txid: '0x1', token: 'ETH', amount: 10n * ether, recipient: user.address},
        {txid: '0x2', token: 'USDC', amount: 250_000_000n, recipient: user.address},
      ],
    ],
  })
  await eth.finalize(eth.head.height)
  await db.rows(`select app.set_payout_address($1, 'ETH', '0x52908400098527886E0F7030069857D2E4169EE7')`, [merchant])
  await db.rows(`select app.create_payout($1, 'ETH', 'ETH', false, 'key', 'request')`, [merchant])
  const [payout] = await db.rows<{id: string}>('select id from app.payout')
  await includeFinally(db, eth, await beginToPay(db, payout!.id))

  await setBalance(treasury, 100n * ether - 99n * 10n ** 17n - networkFee)
  await setBalance(user.address, 10n * ether)
  const data = encodeFunctionData({abi: abis.usdc, functionName: 'transfer', args: [user.address, 250_000_000n]})
  await anvil.send({to: anvil.usdc, data})
  await anvil.mine(eth.head.height) // the state of every block from the next one on
  await growTo((await anvil.block()).height)
})
afterAll(async () => {
  await eth.close()
  await anvil.stop()
  commandLine.close()
  await db.drop()
})

const setBalance = (address: string, amount: bigint) => anvil.call('anvil_setBalance', [address, numberToHex(amount)])

/** Empty blocks up to this height, final. */
async function growTo(height: number): Promise<void> {
  await eth.write({add: Array.from({length: height - eth.head.height}, () => [])})
  await eth.finalize(height)
}

/** A statement that breaks the invariant of each check. */
const breaks: Record<string, string> = {
  conservation: `update app.deposit set amount = amount + 1 where token = 'USDC'`,
  balances: `insert into app.balance_delta (merchant_id, chain, token, amount, deposit_count) select id, 'ETH', 'USDC', 1, 0 from app.merchant`,
  ledger: 'update app.holding set amount = amount - 1',
  postings: 'update app.ledger_entry set amount = amount + 1 where id = (select max(id) from app.ledger_entry)',
  'nothing below zero': 'update app.treasury set reserved = -1',
  'no double credit': `
    insert into app.deposit (chain, txid, output_index, address, token, amount, block_height, block_hash, sender, status, credited, version)
    select chain, txid, output_index, '0xOther', token, amount, block_height, block_hash, sender, status, false, 1 from app.deposit limit 1`,
  'deposits are on the chain': `delete from chain.transfer where token = 'USDC'`,
  finality: 'update chain.cursor set final_height = 2',
  'payouts add up': 'update app.deposit set settlement_id = null',
  'no double pay': 'update chain.inclusion set success = false',
  events: `delete from app.event where type = 'payout.completed'`,
  deliveries: `insert into app.delivery (event_id, endpoint_id, status, finished_at) select id, gen_random_uuid(), 'delivered', now() from app.event limit 1`,
  nonces: 'update app.sender set next_nonce = 2',
  outputs: `insert into app.output (chain, txid, vout, address, amount) values ('BTC', '00', 0, 'nobody', 1)`,
  'no unknown transaction': 'delete from app.outbound_tx',
  journal: `update custody.journal set raw = '0x'`,
  whitelist: `update custody.whitelist set removed_at = added_at - interval '1 minute'`,
  'merchants apart': `update custody.address set merchant_id = gen_random_uuid() where purpose = 'deposit'`,
  'idempotency keys': 'update app.idempotency_key set payout_id = gen_random_uuid()',
}

test.each(checks)('$name: $claim, and what breaks that is found', async ({name, sql}) => {
  expect(await db.rows(sql)).toEqual([])
  const client = await db.pool.connect()
  await client.query('begin; set local session_replication_role = replica') // no trigger refuses it
  await client.query(breaks[name]!)
  const {rows} = await client.query(sql)
  await client.query('rollback')
  client.release()
  expect(rows).not.toEqual([])
})

test('all is right, in the database and on the chain', async () => {
  const {right, checks: results} = await commandLine.json<{right: boolean; checks: object[]}>('audit')
  expect(results.filter(result => !('right' in result && result.right === true))).toEqual([])
  expect(right).toBe(true)
  expect(results).toContainEqual({
    name: 'ETH on chain',
    claim: `addresses and treasury hold what the ledger says, at block ${eth.head.height}`,
    right: true,
    count: 0,
    found: [],
  })
})

test('a coin that the ledger does not know, and bytes that are not those of their txid, are found; the exit code is 1', async () => {
  await db.rows(`update app.outbound_tx set raw = '0x00'`)
  await setBalance(treasury, 1n)
  const data = encodeFunctionData({abi: abis.usdc, functionName: 'transfer', args: [user.address, 1n]})
  await anvil.send({to: anvil.usdc, data})
  await growTo((await anvil.mine()).height)
  const {code, stdout, stderr} = await commandLine.sluice('audit')
  expect({code, stderr}).toEqual({code: 1, stderr: ''})
  expect(stdout).toMatch(/^right +conservation/m)
  expect(stdout).toMatch(/^WRONG +bytes/m)
  expect(stdout).toMatch(/^WRONG +ETH on chain/m)
  expect(stdout).toContain(`{"address":"${user.address}","token":"USDC","ledger":"250000000","chain":"250000001"}`)
  expect(stdout).toContain(`{"address":"${treasury}","token":"ETH","ledger":"90099979000000000000","chain":"1"}`)
})

test('a node that does not answer is no match', async () => {
  const other = new CommandLine(db, {ETH: {rpc_url: 'http://127.0.0.1:9', local: false, tokens: {}}})
  const {code, stdout} = await other.sluice('audit')
  other.close()
  expect(code).toBe(1)
  expect(stdout).toMatch(/ETH on chain: 1 found\n {2}"the node cannot be asked: /)
})
