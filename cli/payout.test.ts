// The commands about money that leaves: payouts, the whitelist and the treasury, on a real database.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {CommandLine} from '../test/support/command-line.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {Anvil} from '../test/support/evm/anvil.ts'
import {beginToPay, includeFinally, makeTreasury, topUp} from '../test/support/evm/payouts.ts'
import {makeMerchant, makeUser} from '../test/support/people.ts'

const destination = '0x52908400098527886E0F7030069857D2E4169EE7'
const mixed = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'
let db: TestDatabase
let anvil: Anvil
let commandLine: CommandLine
let eth: ChainWriter
let treasury: string
let {sluice, json, failure, misuse}: CommandLine = {} as CommandLine

beforeAll(async () => {
  db = await testDatabase()
  anvil = await Anvil.start()
  commandLine = new CommandLine(db, {
    ETH: {rpc_url: anvil.httpUrl, local: true, settings: {ETH_RPC_URL: anvil.httpUrl, ETH_USDC_CONTRACT: anvil.usdc}},
  })
  ;({sluice, json, failure, misuse} = commandLine)
  eth = await ChainWriter.open(db, 'ETH')
  treasury = await makeTreasury(db)
  await topUp(eth, treasury, 'ETH', 10n ** 20n)
  await topUp(eth, treasury, 'USDC', 300_000_000n)
})
afterAll(async () => {
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
  expect(await db.rows('select * from app.ledger_audit')).toEqual([])
  await eth.close()
  commandLine.close()
  await anvil.stop()
  await db.drop()
})

let txids = 0
/** A merchant who has requested a payout of 250 USDC: its prefix, and the payout's ids. */
async function requestPayout(): Promise<{merchant: string; prefix: string; id: string; uuid: string}> {
  const merchant = await makeMerchant(db)
  const {address} = await makeUser(db, merchant)
  await eth.write({add: [[{txid: `0xtx${++txids}`, amount: 250_000_000n, recipient: address}]]})
  await eth.finalise(eth.head.height)
  await db.rows(`select app.set_payout_address($1, 'ETH', $2)`, [merchant, destination])
  const [row] = await db.rows<{id: string; uuid: string; prefix: string}>(
    `select p.id, m.prefix, substr(p.id, 5)::uuid as uuid from app.merchant m
     cross join lateral (select app.create_payout(m.id, 'ETH', 'USDC', false, null, null)::json->>'id' as id) p where m.id = $1`,
    [merchant],
  )
  return {merchant, ...row!}
}

test('an address is whitelisted for one merchant and chain, counts after its waiting time, and can be removed', async () => {
  const {prefix} = await requestPayout()
  const of = ['--merchant', prefix, '--chain', 'ETH', '--address']
  const added = await json('whitelist', 'add', ...of, destination.toLowerCase(), '--wait-hours', '24')
  expect(added).toEqual({
    merchant: expect.stringMatching(/^mer_/),
    chain: 'ETH',
    address: destination,
    active_at: expect.any(String),
  })
  expect(Date.parse(String(added.active_at)) - Date.now()).toBeGreaterThan(23 * 3600_000)
  expect(await json('whitelist', 'add', ...of, destination)).toEqual(added) // it is there already, and waits on
  expect(await json('whitelist', 'list', '--merchant', prefix)).toMatchObject({
    entries: [{chain: 'ETH', address: destination}],
  })
  await json('whitelist', 'remove', ...of, destination)
  expect(await failure('whitelist', 'remove', ...of, destination)).toMatch(/is not on the list/)
  const {stdout} = await sluice('whitelist', 'list', '--merchant', prefix, '--all')
  expect(stdout).toMatch(new RegExp(`^${prefix} +ETH +${destination} +\\d{4}-.* UTC +\\d{4}-.* UTC\\n$`, 'm'))
})

test('an invalid or mistyped address, or one of the service itself, cannot be whitelisted', async () => {
  const {prefix} = await requestPayout()
  const [own] = await db.rows<{address: string}>(
    `select address from custody.address where purpose = 'deposit' limit 1`,
  )
  const add = ['whitelist', 'add', '--chain', 'ETH', '--merchant', prefix, '--address']
  await Promise.all(
    [
      {given: [...add, mixed.toLowerCase().replace('0x5a', '0x5A')], says: /is mistyped/, by: misuse},
      {given: [...add, 'vitalik.eth'], says: /must be 0x and 40 hex digits/, by: misuse},
      {given: [...add, treasury], says: /belongs to this service/},
      {given: [...add, own!.address.toLowerCase()], says: /belongs to this service/},
      {given: ['whitelist', 'add', '--chain', 'ETH', '--address', mixed], says: /give the owner of the list/},
    ].map(async ({given, says, by = failure}) => expect(await by(...given)).toMatch(says)),
  )
  expect(
    await db.rows('select from custody.whitelist w join app.merchant m on m.id = w.merchant_id and m.prefix = $1', [
      prefix,
    ]),
  ).toEqual([])
})

test('a waiting payout shows why, retries at once on request, and is cancelled at once', async () => {
  const {id, uuid, prefix} = await requestPayout()
  await db.rows(`select app.wait_payout($1, 'not_whitelisted', 'the address is on no list', 3600000)`, [uuid])
  const {payouts} = await json<{payouts: unknown[]}>('payout', 'list', '--merchant', prefix)
  expect(payouts).toMatchObject([
    {id, merchant: prefix, status: 'pending', net: '247.5', waiting: {reason: 'not_whitelisted'}, error: null},
  ])
  expect((await sluice('payout', 'show', id)).stdout).toMatch(
    /waits for +not_whitelisted, since .*\nbecause +the address is on no list/,
  )
  expect(await json('payout', 'retry', id)).toEqual({id, retried: true})
  expect(
    await db.rows('select from app.payout where id = $1 and next_step_at <= clock_timestamp()', [uuid]),
  ).toHaveLength(1)
  expect(await json('payout', 'cancel', id)).toEqual({id, cancelled: 'failed'})
  expect(await json('payout', 'show', id)).toMatchObject({
    status: 'failed',
    error: {code: 'cancelled'},
    transactions: [],
  })
  expect(await failure('payout', 'retry', id)).toMatch(/has ended; request a new one/)
  expect(await failure('payout', 'cancel', id)).toMatch(/is failed already/)
  expect(await failure('payout', 'show', `pay_${'0'.repeat(32)}`)).toMatch(/there is no payout/)
})

test('status counts payouts under way, waiting payouts with reasons, and the treasuries', async () => {
  const {uuid} = await requestPayout()
  await db.rows(`select app.wait_payout($1, 'chain_halted', null, 3600000)`, [uuid])
  expect(await json('status')).toMatchObject({
    payouts: {pending: 3, paying: 0, waiting: [{what: 'payout', chain: 'ETH', reason: 'chain_halted', count: 1}]},
    treasuries: [
      {chain: 'ETH', token: 'ETH', operator: '100'},
      {token: 'USDC', balance: '300'},
      {chain: 'POLYGON', token: 'POL'},
      {chain: 'POLYGON', token: 'USDC'},
    ],
  })
  const {stdout} = await sluice('status')
  expect(stdout).toMatch(/^payouts under way +3 pending$/m)
  expect(stdout).toMatch(/^payout +ETH +1 +chain_halted +\d{4}-/m)
})

test('cancelling a payout that is being paid is decided by the chain; show lists each attempt', async () => {
  const {id, uuid} = await requestPayout()
  expect(await failure('payout', 'replace', id)).toMatch(/is pending and has no payment under way/)
  const txid = await beginToPay(db, uuid)
  expect(await json('payout', 'replace', id)).toEqual({id, replacing: true})
  const decisions = `select decision from custody.decision d join app.outgoing_payment s on s.id = d.outgoing_payment_id where s.payout_id = $1`
  expect(await db.rows(decisions, [uuid])).toEqual([{decision: 'replace'}])
  expect(await json('payout', 'cancel', id)).toEqual({id, cancelled: 'cancelling'})
  expect(await db.rows(decisions, [uuid])).toEqual([{decision: 'cancel'}])
  expect(await json('payout', 'show', id)).toMatchObject({
    status: 'paying',
    transactions: [
      {
        kind: 'payout',
        from: treasury,
        to: destination,
        amount: '247.5',
        attempts: [{txid, kind: 'effect', fate: 'open'}],
      },
    ],
  })
  expect((await sluice('payout', 'show', id)).stdout).toMatch(new RegExp(`^payout +live .* ${txid} +open$`, 'm'))
  const lifetime = {from: 1, end: 1_800_000_000_000, clock_ms: 0}
  await db.rows(`begin; set local session_replication_role = replica;
    update custody.journal set details = details || '${JSON.stringify({lifetime})}' where txid = '${txid}'; commit`)
  const asWhereTimeEnds = `update app.chain set ends_by = $1 where chain = 'ETH'`
  await db.rows(asWhereTimeEnds, ['time'])
  expect((await sluice('payout', 'show', id)).stdout).toMatch(/ from +valid until [\s\S]* 2027-01-15T08:00:00\.000Z /)
  await db.rows(asWhereTimeEnds, [null])
  await includeFinally(db, eth, txid)
  expect((await sluice('payout', 'show', id)).stdout).toMatch(new RegExp(`^payout +done .* ${txid} +final$`, 'm'))
  expect(await json('payout', 'show', id)).toMatchObject({
    status: 'completed',
    txid,
    network_fee: '0.000021',
    native_token: 'ETH',
  })
})

test('the treasury shows whose money it holds', async () => {
  await db.rows(
    `insert into app.gas (chain, address, amount) values ('ETH', '0xone', 2 * 10 ^ 15), ('ETH', '0xtwo', 10 ^ 15)`,
  )
  const {treasuries} = await json<{treasuries: object[]}>('treasury', 'show')
  await db.rows('delete from app.gas')
  expect(treasuries).toMatchObject([
    {
      chain: 'ETH',
      token: 'ETH',
      address: treasury,
      balance: '99.999979',
      reserved: '0',
      operator: '99.999979',
      merchants: '0',
      gas_on_addresses: '0.003',
    },
    {chain: 'ETH', token: 'USDC', address: treasury, balance: '52.5', operator: '52.5', gas_on_addresses: '0'},
    {chain: 'POLYGON', token: 'POL', address: treasury, balance: '0', gas_on_addresses: '0'},
    {chain: 'POLYGON', token: 'USDC', address: treasury, balance: '0'},
  ])
})

test('a withdrawal goes to the operator’s whitelist only, and takes the operator’s own money only', async () => {
  const withdraw = (token: string, amount: string, to = mixed) =>
    ['treasury', 'withdraw', '--chain', 'ETH', '--token', token, '--amount', amount, '--to', to] as const
  expect(await failure(...withdraw('USDC', '1'))).toMatch(
    /is not on the operator's whitelist; to add it, run sluice whitelist add --operator/,
  )
  expect(await json('whitelist', 'add', '--operator', '--chain', 'ETH', '--address', mixed)).toMatchObject({
    merchant: null,
  })
  await Promise.all(
    [
      {given: withdraw('USDC', '1.1234567'), says: /USDC has 6 decimals/, by: misuse},
      {given: withdraw('USDC', '-1'), says: /is not an amount/, by: misuse},
      {given: withdraw('DOGE', '1'), says: /ETH has no token DOGE; it has ETH, USDC/},
      {given: withdraw('USDC', '52.500001'), says: /own money is not enough: USDC short by 0\.000001/},
      {given: withdraw('ETH', '99.98'), says: /own money is not enough: ETH short by/},
    ].map(async ({given, says, by = failure}) => expect(await by(...given)).toMatch(says)),
  )
  await anvil.call('anvil_setBalance', [treasury, '0x56bc75e2d63100000']) // 100 ETH
  await anvil.call('anvil_setCode', [mixed, '0x60006000fd'])
  expect(await failure(...withdraw('ETH', '1'))).toMatch(
    /the recipient refuses the payment: .*revert.*; withdraw to another address/,
  )
  await anvil.call('anvil_setCode', [mixed, '0x'])
  const {id} = await json(...withdraw('USDC', '52.5'))
  expect(await db.rows('select kind, amount, recipient, nonce from app.outgoing_payment where id = $1', [id])).toEqual([
    {kind: 'withdrawal', amount: '52500000', recipient: mixed, nonce: 1},
  ])
  expect(await json('treasury', 'show')).toMatchObject({
    withdrawals: [{id, token: 'USDC', amount: '52.5', to: mixed, status: 'allocated'}],
  })
  expect(await json('treasury', 'cancel', String(id))).toEqual({id, cancelling: true})
  expect(await db.rows('select cancelling from app.outgoing_payment where id = $1', [id])).toEqual([{cancelling: true}])
  expect(await failure('treasury', 'cancel', 'x')).toMatch(/there is no open withdrawal x/)
})
