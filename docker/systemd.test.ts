// The units in docs/operations/systemd as texts: what they start is there, what they set is a setting, and custody's
// user is custody's alone.
import {existsSync, readdirSync, readFileSync} from 'node:fs'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {expect, test} from 'vitest'
import {settingNames} from '../chains/settings.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = path.join(root, 'docs/operations/systemd')
const read = (name: string) => readFileSync(path.join(folder, name), 'utf8')
const units = readdirSync(folder).filter(name => name.endsWith('.service'))
const valuesOf = (unit: string, key: string) =>
  [...read(unit).matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value]) => value!)

test('each unit starts an existing program with known settings', () => {
  expect(units).toHaveLength(7)
  for (const unit of units) {
    const [program, module] = valuesOf(unit, 'ExecStart')[0]!.split(' ') as [string, string]
    expect(program, unit).toBe('/opt/sluice/node_modules/node/bin/node')
    expect(existsSync(path.join(root, module)), unit).toBe(true)
    const names = valuesOf(unit, 'Environment').flatMap(line => line.split(' ').map(pair => pair.split('=')[0]!))
    expect(
      names.filter(name => !settingNames().includes(name)),
      unit,
    ).toEqual([])
    expect(valuesOf(unit, 'NoNewPrivileges'), unit).toEqual(['yes'])
  }
})

test('each unit reads the settings that all processes share, the migration too: it writes tokens and minimums into the database', () => {
  for (const unit of units) expect(valuesOf(unit, 'EnvironmentFile'), unit).toContain('-/etc/sluice/settings')
  const readme = read('README.md')
  for (const [command] of readme.matchAll(/^(systemd-run|set -a)(.*\\\n)*.*$/gm))
    expect(command).toContain('/etc/sluice/settings')
})

test('each kind of process has its own user, and only custody can read the seed', () => {
  const users = new Map(units.flatMap(unit => valuesOf(unit, 'User').map(user => [user, unit])))
  expect([...users.keys()].sort()).toEqual([
    'sluice-api',
    'sluice-auth',
    'sluice-custody',
    'sluice-dashboard',
    'sluice-indexer',
    'sluice-jobs',
  ])
  const made = [...read('sluice.sysusers').matchAll(/^u (\S+)/gm)].map(([, user]) => user)
  expect(made.sort()).toEqual([...users.keys()].sort())
  expect(read('sluice.tmpfiles')).toMatch(/^d \/var\/lib\/sluice\/custody +0700 sluice-custody sluice-custody/m)
  for (const [user, unit] of users)
    if (user !== 'sluice-custody') expect(valuesOf(unit, 'InaccessiblePaths')[0], unit).toMatch(/^\/var\/lib\/sluice/)
})
