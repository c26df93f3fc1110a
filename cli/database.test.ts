// sluice database rotate-password, on a server of its own: roles and their passwords belong to a whole server.
import {readFileSync, rmSync, statSync, writeFileSync} from 'node:fs'
import path from 'node:path'
import pg from 'pg'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {changeOwnerPassword, migrate, roles, roleUrl} from '../db/migrate/migrate.ts'
import {type EmbeddedPostgres, renewPassword, startPostgres} from '../db/server/embedded.ts'
import {run} from '../test/support/command-line.ts'
import {newHome, removeHome} from '../test/support/processes.ts'

const home = newHome()
const dir = path.join(home, 'postgres')
let postgres: EmbeddedPostgres

beforeAll(async () => {
  postgres = await startPostgres({dir, flags: ['-c fsync=off']})
  await migrate(postgres.url)
})
afterAll(async () => {
  await postgres.stop()
  await removeHome(home)
})

const rotate = (settings: Record<string, string>, ...given: string[]) =>
  run(['database', 'rotate-password', ...given, '--json'], home, settings)

/** The roles that can connect with the passwords derived from an owner's URL. */
async function whoGetsIn(ownerUrl: string): Promise<string[]> {
  const urls = [ownerUrl, ...roles.map(role => roleUrl(ownerUrl, role))]
  const found = await Promise.all(
    urls.map(async connectionString => {
      const client = new pg.Client({connectionString})
      client.on('error', () => {})
      const isIn = await client.connect().then(
        () => true,
        () => false,
      )
      await client.end().catch(() => {})
      return isIn ? [new URL(connectionString).username] : []
    }),
  )
  return found.flat()
}
const everybody = ['sluice', ...roles]

test('rotate-password on a named database renews owner and roles, and writes the URL to the file before the server takes it', async () => {
  const before = postgres.url
  const to = path.join(home, 'database_url.new')
  expect(await rotate({DATABASE_URL: before})).toMatchObject({code: 1, stderr: expect.stringMatching(/give --to FILE/)})
  writeFileSync(to, 'of somebody else')
  expect(await rotate({DATABASE_URL: before}, '--to', to)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/exists; nothing was changed/),
  })
  expect(await whoGetsIn(before)).toEqual(everybody)
  rmSync(to)
  expect(await rotate({DATABASE_URL: before}, '--to', to)).toEqual({code: 0, stdout: '{"rotated":true}\n', stderr: ''})
  expect(statSync(to).mode & 0o777).toBe(0o600)
  const after = readFileSync(to, 'utf8').trim()
  expect(await whoGetsIn(before)).toEqual([])
  expect(await whoGetsIn(after)).toEqual(everybody)
  const password = new URL(before).password
  await changeOwnerPassword(after, password) // as postgres.json has it
  expect(await whoGetsIn(before)).toEqual(everybody)
}, 60_000)

test('where npm start runs Postgres, rotating needs a stopped service, and the next start uses the new password', async () => {
  const before = postgres.url
  expect(await rotate({}, '--to', path.join(home, 'unused'))).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/--to is for a database that DATABASE_URL names/),
  })
  expect(await rotate({})).toEqual({code: 0, stdout: '{"rotated":true}\n', stderr: ''})
  postgres = await startPostgres({dir, flags: ['-c fsync=off']})
  expect(postgres.url).not.toBe(before)
  expect(await whoGetsIn(before)).toEqual([])
  expect(await whoGetsIn(postgres.url)).toEqual(everybody)
  const nowhere = await run(['database', 'rotate-password'], path.join(home, 'nothing'))
  expect(nowhere).toMatchObject({code: 1, stderr: expect.stringMatching(/has no database; set SLUICE_HOME/)})
}, 60_000)

test.each(['before', 'after'])(
  'after a kill %s the server takes the new password, the next start finds out which one is valid',
  async when => {
    const {url} = postgres
    const killed = renewPassword(dir, async password => {
      if (when === 'after') await changeOwnerPassword(url, password)
      throw new Error('killed')
    })
    await expect(killed).rejects.toThrow('killed')
    expect(JSON.parse(readFileSync(path.join(dir, 'postgres.json'), 'utf8'))).toHaveProperty('next_password')
    postgres = await startPostgres({dir, flags: ['-c fsync=off']})
    expect(postgres.url === url).toBe(when === 'before')
    expect(await whoGetsIn(postgres.url)).toEqual(everybody)
    expect(JSON.parse(readFileSync(path.join(dir, 'postgres.json'), 'utf8'))).not.toHaveProperty('next_password')
  },
)
