// Names in .env and in the environment that are no setting.
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {expect, test} from 'vitest'
import {unknownVariables, wrongLines} from './misspelt.ts'
import {loadEnvironmentFile, settingNames, unknownSettings} from './settings.ts'

const wrong = (text: string) => wrongLines(text, settingNames())

test('a misspelt name in .env is refused with its line and the nearest setting, and no part of a value is shown', () => {
  expect(wrong('# limits\n\nETH_PAYOUT_LIMT=ETH:5\nexport TRON_RCP_URL=http://x\nFOO=1\n')).toEqual([
    '  line 3: ETH_PAYOUT_LIMT is no setting; did you mean ETH_PAYOUT_LIMIT?',
    '  line 4: TRON_RCP_URL is no setting; did you mean TRON_RPC_URL?',
    '  line 5: FOO is no setting; .env.example lists all of them',
  ])
  expect(wrong('PORT: 8080\nport=1\npostgres://a:secret@host/db\nc2VjcmV0=\n')).toEqual([
    '  line 1: is not NAME=value, such as PORT=8080; a comment begins with #',
    '  line 2: names no setting; did you mean PORT?',
    '  line 3: is not NAME=value, such as PORT=8080; a comment begins with #',
    '  line 4: names no setting; .env.example lists all of them',
  ])
})

test('what settings, docker compose and Node read is accepted, also over several lines', () => {
  const example = readFileSync(new URL('../.env.example', import.meta.url), 'utf8')
  expect(wrong(example.replaceAll(/^#([A-Z][A-Z0-9_]*=)/gm, '$1'))).toEqual([])
  expect(wrong('COMPOSE_PROFILES=nodes\nPOSTGRES_PASSWORD=x\nNODE_OPTIONS=\nPORT = 80 # the API\n')).toEqual([])
  expect(wrong(`ETH_TOKENS='[\n  {"code": "EURC"}\n]'\r\nPORT="8080"\nFOX=1`)).toEqual([
    expect.stringMatching('line 5: FOX'),
  ])
})

test('the file .env of the current directory is checked before it is read', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-env-'))
  try {
    writeFileSync(path.join(folder, '.env'), 'DASHBORD_PORT=1\n')
    expect(() => loadEnvironmentFile(folder)).toThrow(
      /^the file .env has lines without effect:\n {2}line 1: DASHBORD_PORT is no setting; did you mean DASHBOARD_PORT\?$/,
    )
    expect(process.env.DASHBORD_PORT).toBeUndefined()
    loadEnvironmentFile(path.join(folder, 'none'))
  } finally {
    rmSync(folder, {recursive: true})
  }
})

test('variables of the environment that begin like ours and are none are named', () => {
  const environment = {PATH: 'x', ETH_RPC_ULR: 'x', SLUICE_HOME: 'x', SLUICE_HOEM: '', CUSTODY_THING: 'x', ETHER_X: '1'}
  expect(unknownVariables(environment, settingNames(), ['ETH'])).toEqual(['ETH_RPC_ULR', 'CUSTODY_THING'])
  expect(unknownSettings(environment)).toBe('ETH_RPC_ULR (did you mean ETH_RPC_URL?), CUSTODY_THING')
  expect(unknownSettings({PORT: '1'})).toBeUndefined()
})
