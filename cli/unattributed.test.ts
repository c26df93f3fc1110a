// The commands about unattributed deposits, on a real database.
import {afterAll, beforeAll, expect, test} from 'vitest'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {CommandLine} from '../test/support/command-line.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {makeTreasury} from '../test/support/evm/payouts.ts'
import {PaymentRequests} from '../test/support/payment-requests.ts'
import {makeMerchant, makeUser, type TestUser} from '../test/support/people.ts'

const destination = '0x52908400098527886E0F7030069857D2E4169EE7'
const ids: Record<string, string> = {}
let db: TestDatabase
let commandLine: CommandLine
let eth: ChainWriter
let user: TestUser
let reference: string
let {sluice, json, failure, misuse}: CommandLine = {} as CommandLine

beforeAll(async () => {
  db = await testDatabase()
  commandLine = new CommandLine(db, {})
  ;({sluice, json, failure, misuse} = commandLine)
  eth = await ChainWriter.open(db, 'ETH')
  const treasury = await makeTreasury(db)
  user = await makeUser(db, await makeMerchant(db), ['POLYGON'])
  const recipient = user.address
  const requests = await PaymentRequests.open(db)
  const request = await requests.create(db.pool, await makeMerchant(db), {currency: 'ETH', amount: '3'})
  reference = request.external_id
  const transfers = [
    {txid: 'wrong', amount: 3_000_000n, recipient: request.address},
    {txid: 'usdc', amount: 250_000_000n, recipient},
    {txid: 'more', amount: 1n, recipient},
    {txid: 'ether', token: 'ETH', amount: 10n ** 18n, recipient},
    {txid: 'fake', token: '0xfa15e', amount: 7n, recipient},
    {txid: 'fake-treasury', token: '0xfa15e', amount: 8n, recipient: treasury},
    {txid: 'top-up', amount: 9n, recipient: treasury},
  ]
  await eth.write({add: transfers.map(transfer => [transfer])})
  await eth.finalise(eth.head.height)
  const rows = await db.rows<{txid: string; id: string}>(`select txid, app.public_id('dep', id) as id from app.deposit`)
  for (const {txid, id} of rows) ids[txid] = id
})
afterAll(async () => {
  expect(await db.rows('select * from app.ledger_audit')).toEqual([])
  expect(await db.rows('select * from app.balance_audit')).toEqual([])
  await eth.close()
  commandLine.close()
  await db.drop()
})

interface Listed {
  id: string
  dismissed: boolean
}

const list = async (...given: string[]) =>
  (await json<{unattributed: Listed[]}>('unattributed', 'list', ...given)).unattributed

test('deposits that wait for a decision are listed with user and reason, unknown tokens in base units', async () => {
  expect(await list('--chain', 'ETH')).toMatchObject([
    {id: ids['fake-treasury'], merchant: null, amount: null, amount_base_units: '8', reason: 'unsupported_token'},
    {id: ids.fake, token: '0xfa15e', amount: null, amount_base_units: '7', reason: 'unsupported_token'},
    {id: ids.ether, amount: '1', reason: 'chain_not_requested', status: 'final', decision: null, state: null},
    {id: ids.more, token: 'USDC', amount: '0.000001', reason: 'chain_not_requested'},
    {id: ids.usdc, token: 'USDC', amount: '250', external_ref: expect.any(String), payment_request: null},
    {id: ids.wrong, amount: '3', reason: 'wrong_token', external_ref: null, payment_request: reference},
  ])
  expect(await list('--chain', 'POLYGON')).toEqual([])
  const {stdout} = await sluice('unattributed', 'list')
  expect(stdout).toMatch(/^id +merchant +user +payment request +chain +amount +reason +status +when +decision\n/)
  expect(stdout).toMatch(/\(treasury\) +ETH +8 base units of 0xfa15e +unsupported_token/)
})

test('several deposits are credited together, or none; crediting twice is refused', async () => {
  const nobody = `dep_${'0'.repeat(32)}`
  const refused: [string, RegExp][] = [
    [nobody, /there is no deposit dep_0000.*Nothing was credited/],
    [ids.fake!, /does not support the token 0xfa15e on ETH/],
    ['pay_1', /"pay_1" is not the id of a deposit/],
  ]
  await Promise.all(
    refused.map(async ([id, says]) =>
      expect(await failure('unattributed', 'credit', ids.usdc!, id, '--yes')).toMatch(says),
    ),
  )
  expect(await failure('unattributed', 'credit', ids.usdc!, ids.more!)).toMatch(
    /cannot be undone. To be credited:\n {2}250 USDC on ETH to \w+\n {2}0.000001 USDC on ETH to \w+\n.*give --yes/,
  )
  expect(await db.rows('select * from app.balance_now')).toEqual([])
  const {credited} = await json<{credited: object[]}>(
    'unattributed',
    'credit',
    ids.usdc!,
    ids.more!,
    ids.usdc!,
    '--yes',
  )
  expect(credited).toMatchObject([
    {id: ids.usdc, chain: 'ETH', token: 'USDC', amount: '250'},
    {id: ids.more, amount: '0.000001'},
  ])
  const [open, all, again, nothing] = await Promise.all([
    list(),
    list('--all'),
    failure('unattributed', 'credit', ids.usdc!, '--yes'),
    sluice('unattributed', 'credit'),
  ])
  expect(open.map(({id}) => id)).not.toContain(ids.usdc)
  expect(all).toContainEqual(expect.objectContaining({id: ids.usdc, decision: 'credit'}))
  expect(again).toMatch(/is credited to its merchant already/)
  expect(nothing.code).toBe(2)
})

test('crediting a deposit of a payment request leaves the request as it is, and warns that no webhook is sent', async () => {
  const {stdout} = await sluice('unattributed', 'credit', ids.wrong!, '--yes')
  expect(stdout).toContain(
    `credited to ${reference.split('-')[0]}. The payment request ${reference} stays as it is, and no webhook is sent: tell the merchant yourself.`,
  )
  expect((await list('--all')).find(({id}) => id === ids.wrong)).toMatchObject({
    decision: 'credit',
    reason: 'wrong_token',
    payment_request: reference,
  })
})

const back = () => ['unattributed', 'return', ids.ether!]

test('a return goes only to a foreign address on the operator’s whitelist, and never for an unknown token', async () => {
  const refused: [string[], RegExp][] = [
    [[...back(), '--to', user.address], /belongs to this service/],
    [[...back(), '--to', destination], /is not on the operator's whitelist; to add it, run sluice whitelist add/],
    [['unattributed', 'return', ids.fake!, '--to', destination], /move it with the seed in a wallet/],
  ]
  await Promise.all(refused.map(async ([given, says]) => expect(await failure(...given)).toMatch(says)))
  expect(await misuse(...back(), '--to', '0x12')).toMatch(
    /"0x12" cannot be used on ETH: it must be 0x and 40 hex digits/,
  )
  expect(await db.rows(`select * from app.unattributed_decision where decision = 'return'`)).toEqual([])
})

test('a return is listed until it has left', async () => {
  await db.rows(`insert into custody.whitelist (chain, address) values ('ETH', $1)`, [destination])
  const returned = await json(...back(), '--to', destination)
  expect(returned).toEqual({id: ids.ether, chain: 'ETH', token: 'ETH', amount: '1', to: destination})
  const decided = (await list()).filter(({id}) => id === ids.ether)
  expect(decided).toMatchObject([{decision: 'return', state: 'decided', destination, waiting: null}])
  await db.rows(`select app.begin_return_sweep($1, 9 * 10::numeric ^ 17, 10::numeric ^ 15)`, [ids.ether!.slice(4)])
  const [{withdrawals}, {stdout}] = await Promise.all([
    json<{withdrawals: object[]}>('treasury', 'show'),
    sluice('unattributed', 'list'),
  ])
  expect(withdrawals).toMatchObject([{kind: 'return', chain: 'ETH', token: 'ETH', amount: '0.9', status: 'allocated'}])
  expect(stdout).toMatch(/return: on its way to the treasury$/m)
})

test('what is dismissed leaves the list and the counts, also what still comes of a token; nothing is decided about its money', async () => {
  const open = (await list()).map(({id}) => id)
  expect(open).toEqual(expect.arrayContaining([ids.fake, ids['fake-treasury']]))
  const token = ['--chain', 'ETH', '--token', '0xFA15E']
  expect((await sluice('unattributed', 'dismiss', ...token)).stdout).toBe(
    '2 of 0xFA15E on ETH are dismissed, and so is what is still to come.\n',
  )
  await json('unattributed', 'dismiss', ...token) // again
  await eth.write({add: [[{txid: 'more spam', token: '0xfa15e', amount: 1n, recipient: user.address}]]})
  await eth.write({add: [[{txid: 'dust', amount: 1n, recipient: user.address}]]})
  await eth.finalise(eth.head.height)
  const [dust] = await list()
  expect(dust).toMatchObject({token: 'USDC', dismissed: false})
  await json('unattributed', 'dismiss', dust!.id)
  expect(await list()).toEqual([expect.objectContaining({id: ids.ether})])
  const all = await json<{unattributed: {txid: string; dismissed: boolean}[]}>('unattributed', 'list', '--all')
  const dismissed = all.unattributed.filter(row => row.dismissed).map(({txid}) => txid)
  expect(dismissed).toEqual(['dust', 'more spam', 'fake-treasury', 'fake'])
  expect(await json('status')).toMatchObject({deposits: {unattributed: 1}}) // which is being returned
  expect(await db.rows(`select txid from analytics.unattributed where dismissed order by created_at`)).toEqual([
    {txid: 'fake'},
    {txid: 'more spam'},
    {txid: 'dust'},
  ])
  const {credited} = await json<{credited: {id: string}[]}>('unattributed', 'credit', dust!.id, '--yes')
  expect(credited).toMatchObject([{id: dust!.id, amount: '0.000001'}])
  await json('unattributed', 'dismiss', ...token, '--undo')
  expect((await list()).map(({id}) => id)).toEqual(expect.arrayContaining([ids.fake, ids['fake-treasury']]))
})

test('a token is dismissed only if it came and Sluice does not support it, and a deposit only if it is not credited', async () => {
  const dismiss = (...given: string[]) => ['unattributed', 'dismiss', ...given]
  const refused: [string[], RegExp][] = [
    [
      dismiss('--chain', 'ETH', '--token', 'usdc'),
      /Sluice supports USDC on ETH: its deposits are dismissed one by one/,
    ],
    [dismiss('--chain', 'ETH', '--token', '0xbad'), /no deposit of a token 0xbad arrived on ETH/],
    [dismiss('--chain', 'ETH', '--token', '0xfa15e', '--undo'), /0xfa15e on ETH is not dismissed/],
    [dismiss(ids.ether!, ids.usdc!), /is credited to its merchant/],
    [dismiss(`dep_${'0'.repeat(32)}`), /there is no deposit dep_000/],
  ]
  for (const [given, says] of refused) expect(await failure(...given)).toMatch(says)
  expect((await list()).map(({id}) => id)).toContain(ids.ether) // all are dismissed, or none
  const wrong = [dismiss(), dismiss(ids.ether!, '--chain', 'ETH'), dismiss('--chain', 'ETH'), dismiss('--token', 'x')]
  for (const given of wrong) expect(await sluice(...given)).toMatchObject({code: 2})
})

test('a long list comes in pages that say how many there are, and what the next one is', async () => {
  const shown = await json<{unattributed: {id: string}[]; total: number; next: null}>('unattributed', 'list', '--all')
  expect(shown).toMatchObject({total: shown.unattributed.length, next: null})
  const pages: string[] = []
  for (let before: string[] = []; ; ) {
    const given = ['unattributed', 'list', '--all', '--limit', '3', ...before]
    const page = await json<{unattributed: {id: string}[]; total: number; next: string | null}>(...given)
    expect(page.total).toBe(shown.total)
    pages.push(...page.unattributed.map(({id}) => id))
    const {stdout} = await sluice(...given)
    if (page.next === null) {
      expect(stdout).toMatch(/\n\n\d of \d+\. There is no more\.\n$/)
      break
    }
    expect(stdout).toContain(`3 of ${shown.total}. The next ones: the same command with --before ${page.next}\n`)
    before = ['--before', page.next]
  }
  expect(pages).toEqual(shown.unattributed.map(({id}) => id))
  expect(await failure('unattributed', 'list', '--before', 'x')).toMatch(/--before/)
})
