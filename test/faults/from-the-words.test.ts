// docs/operations/from-the-words.md, step by step, with the commands of that page and real processes: the machine is
// lost, and what is left are the 24 words on paper and an older copy of the database. Every command that is used is on
// the page.
import {readFileSync, renameSync, rmSync, writeFileSync} from 'node:fs'
import path from 'node:path'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {dashboardSecretFile, readProcesses} from '../../base/home.ts'
import {stops} from '../support/processes.ts'
import {until} from '../support/until.ts'
import {WholeService} from '../support/whole-service.ts'

const page = readFileSync(new URL('../../docs/operations/from-the-words.md', import.meta.url), 'utf8')
let service: WholeService

beforeAll(async () => {
  service = await WholeService.open(['ETH', 'BTC'], {CUSTODY_PASSPHRASE: 'six words that nobody guesses, ever'})
  await service.whitelist('ETH')
})
afterAll(async () => {
  await service?.close()
})

/** Runs a command of the page, whose words are the first ones. */
async function said(words: string, ...more: string[]): Promise<string> {
  expect(page).toContain(`npm run -s sluice -- ${words}`)
  return await service.said(...words.split(' '), ...more)
}

async function startWithout(names: string): Promise<void> {
  expect(page).toContain(`npm start -- --without ${names}`)
  await service.start('--without', names)
}

async function move(file: string, to: string): Promise<void> {
  expect(page).toContain(`mv .sluice/${file} .sluice/${to}`)
  renameSync(path.join(service.home, file), path.join(service.home, to))
}

/** Nothing is paid while this is done. */
async function withoutJobs<T>(work: () => Promise<T>): Promise<T> {
  const {pid} = readProcesses(service.home).find(({name}) => name === 'jobs')!
  process.kill(pid!, 'SIGSTOP')
  await stops(pid!)
  try {
    return await work()
  } finally {
    process.kill(pid!, 'SIGCONT')
  }
}

/** Until all of it is final, each run enters what has become so. */
async function reconciled(): Promise<string> {
  let all = ''
  const isOver = async () => {
    await service.chains.ETH.mine()
    const told = await said('custody reconcile')
    all += told
    return !told.includes('run this again')
  }
  await until(isOver, {timeoutMs: 60_000, what: 'every transaction to be final', intervalMs: 300})
  return all
}

test('from the words and an old copy to a running service: what was paid since is recognised, and what was not is paid', async () => {
  const {home, wallet, chains} = service
  const words = /phrase {4}(.*)/.exec(await service.said('custody', 'init', '--show-phrase'))![1]!
  await service.deposit('ETH', 'EURC', 'ann', '100')
  await service.deposit('BTC', 'BTC', 'ann', '0.5')
  const backup = path.join(home, 'backup')
  const [early, waiting] = await withoutJobs(async () => {
    const asked = [await service.pay('ETH', 'EURC', 'early'), await service.pay('BTC', 'BTC', 'waiting')] as const
    await service.sluice('backup', '--to', backup)
    return asked
  })
  const {txid} = await service.becomes(early.id, 'completed')
  await service.deposit('ETH', 'EURC', 'ann', '40') // not in the copy, and paid out
  const lost = await service.becomes((await service.pay('ETH', 'EURC', 'lost')).id, 'completed')

  await service.lose('postgres', 'custody', path.relative(home, dashboardSecretFile(home)))
  const paper = path.join(home, 'words')
  writeFileSync(paper, words.toUpperCase().replaceAll(' ', '\n'), {mode: 0o600})

  await said('restore --from', backup)
  await move('custody/seed.json', 'custody/seed.lost')
  await startWithout('custody,jobs,api,dashboard-auth,dashboard-pages')
  expect(await said('custody init --from-phrase', paper)).toMatch(
    /^Made the seed of these words: .*seed\.json\nAll \d+ addresses of the database come from these words\./,
  )
  rmSync(paper)
  await service.stop()
  await startWithout('jobs,api,dashboard-auth,dashboard-pages')
  const told = await reconciled()
  expect(told).toContain(`${txid}: payout ${early.id}, 99 EURC to ${wallet.ETH}`)
  expect(told).toContain(`${lost.txid}: a payout that this copy does not have`)
  expect(told).toContain(`${waiting.id}: 0.495 BTC on BTC to ${wallet.BTC}, for Acme`)
  expect(await said('incident list')).toBe('There are no open incidents.\n')
  expect(await said('payout list')).toMatch(new RegExp(`pending .*${waiting.id}`))
  await service.stop()
  await service.start()

  expect(await service.becomes(early.id, 'completed')).toMatchObject({txid})
  await service.whitelist('BTC')
  await service.becomes(waiting.id, 'completed')
  await service.deposit('ETH', 'EURC', 'ann', '10')
  await service.becomes((await service.pay('ETH', 'EURC', 'next')).id, 'completed')
  expect(await chains.ETH.balance('EURC', wallet.ETH)).toBe(148_500_000n) // 99 + 39.6 + 9.9, each once
  expect(await chains.BTC.balance('BTC', wallet.BTC)).toBe(49_500_000n)
  expect((await service.balances()).EURC).toBeUndefined()
  expect(await service.sluice('audit')).toMatchObject({right: true})
  await said('custody backup --to', path.join(home, 'custody-backup'))
}, 600_000)
