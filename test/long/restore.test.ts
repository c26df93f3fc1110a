// The database is lost, and an older copy replaces it: a real backup of a whole service, and everything that happened
// since. The payouts are in a token that only the service's settings name.
import {readFileSync} from 'node:fs'
import path from 'node:path'
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {dashboardSecretFile} from '../../base/home.ts'
import {type Deposit, WholeService} from '../support/whole-service.ts'

let service: WholeService

beforeAll(async () => {
  service = await WholeService.open(['ETH', 'BTC'])
  for (const chain of ['ETH', 'BTC'] as const) await service.whitelist(chain)
})

afterAll(async () => {
  await service.close()
})

test('payments since the backup are not paid again, and the next payout pays exactly the rest', async () => {
  const {home} = service
  await service.deposit('ETH', 'EURC', 'ann', '100')
  const before = await service.pay('ETH', 'EURC', 'before')
  await service.becomes(before.id, 'completed')
  const unsettled = await service.deposit('ETH', 'EURC', 'ann', '200') // unsettled in the copy, and paid out since
  await service.deposit('BTC', 'BTC', 'ann', '0.5')
  const backup = path.join(home, 'backup')
  expect(await service.sluice('backup', '--to', backup)).toMatchObject({directory: backup})

  const completed = await service.pay('ETH', 'EURC', 'after')
  expect(completed.gross).toBe('200')
  const {txid} = await service.becomes(completed.id, 'completed')
  const later = await service.deposit('ETH', 'EURC', 'ann', '300') // not in the copy, and paid out since
  const second = await service.pay('ETH', 'EURC', 'second')
  await service.becomes(second.id, 'completed')
  const owed = await service.deposit('ETH', 'EURC', 'ann', '40') // not in the copy, and not paid out
  const drill = await service.sluice('drill', '--from', backup)
  expect(
    drill.steps.map(({step, right, result}: {step: string; right: boolean; result: string}) => [step, right, result]),
  ).toEqual([
    ['restore', true, expect.any(String)],
    ['custody verify', true, expect.stringContaining('each as it is in the database')],
    ['custody reconcile', true, expect.stringMatching(/of 2 payouts/)],
    ['catch up', true, expect.stringContaining('ETH')],
    ['audit', true, expect.any(String)],
  ])
  const client = new pg.Client({connectionString: service.running.service.database_url})
  await client.connect()
  const {rows} = await client.query('select kind, made_with, error from app.backup_run order by id')
  await client.end()
  expect(rows).toEqual([
    {kind: 'backup', made_with: 'sluice backup', error: null},
    {kind: 'drill', made_with: 'sluice drill', error: null},
  ])
  const known = (await service.call('GET', '/v1/events?limit=1')).body.events[0]
  const underWay = await service.pay('BTC', 'BTC', 'bitcoin')
  await service.becomes(underWay.id, 'paying')

  const cookieSecret = readFileSync(dashboardSecretFile(home), 'utf8')
  await service.lose('postgres', path.relative(home, dashboardSecretFile(home)))
  const missed = await service.chains.ETH.send({token: 'EURC', to: owed.address, amount: '5'}) // while nobody follows the chain

  expect(await service.sluice('restore', '--from', backup)).toEqual({home})
  expect(readFileSync(dashboardSecretFile(home), 'utf8')).toBe(cookieSecret)
  await service.start()
  const {incidents} = await service.sluice('incident', 'list')
  expect(incidents.map((each: {kind: string; chain: string}) => `${each.kind} ${each.chain}`).sort()).toEqual([
    'journal_ahead BTC',
    'journal_ahead ETH',
  ])
  expect((await service.call('GET', `/v1/payouts/${completed.id}`)).status).toBe(404)
  expect(await service.call('POST', '/v1/payouts', {chain: 'ETH', token: 'EURC'}, 'after')).toMatchObject({
    status: 422,
    body: {
      error: 'payout_failed',
      message: expect.stringMatching(/incident \d+ \(journal_ahead\) waits for the operator/),
    },
  })

  expect(await service.said('custody', 'reconcile')).toMatch(/entries were imported, of 3 payouts/)
  expect(await service.becomes(completed.id, 'completed')).toMatchObject({gross: '200', net: '198', txid})
  await service.becomes(second.id, 'completed')
  await service.becomes(underWay.id, 'completed')
  await service.untilFinal('ETH', missed)
  expect((await service.deposits()).map(({id}) => id)).toEqual(expect.arrayContaining([later.id, owed.id]))
  expect((await service.balances()).EURC).toBe('45')
  const settlementOf = async ({id}: Deposit) => (await service.call('GET', `/v1/deposits/${id}`)).body.settlement_id
  expect([await settlementOf(unsettled), await settlementOf(later), await settlementOf(owed)]).toEqual([
    completed.id,
    second.id,
    null,
  ])
  const [balance] = (await service.call('GET', '/v1/balances')).body.balances.filter(
    ({token}: {token: string}) => token === 'EURC',
  )
  expect(balance.depositCount).toBe(2)
  const newest = (await service.call('GET', '/v1/events?limit=1')).body.events[0]
  expect(newest.sequence).toBeGreaterThan(known.sequence)

  const next = await service.pay('ETH', 'EURC', 'next')
  expect(next).toMatchObject({gross: '45', net: '44.55'})
  await service.becomes(next.id, 'completed')
  expect(await service.chains.ETH.balance('EURC', service.wallet.ETH)).toBe(638_550_000n) // 99 + 198 + 297 + 44.55, each once
  expect(await service.chains.BTC.balance('BTC', service.wallet.BTC)).toBe(49_500_000n)
  expect((await service.balances()).EURC).toBeUndefined()
  expect(await service.sluice('audit')).toMatchObject({right: true})
  expect((await service.sluice('incident', 'list')).incidents).toEqual([])
}, 1_200_000)
