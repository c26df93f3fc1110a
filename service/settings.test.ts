import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {expect, test} from 'vitest'
import {readSettings, settingNames} from './settings.ts'

test('.env.example lists every variable, with a comment and its default', () => {
  const lines = readFileSync(new URL('../.env.example', import.meta.url), 'utf8').split('\n')
  const listed = lines.flatMap(line => line.match(/^#?([A-Z][A-Z0-9_]*)=(.*)$/)?.slice(1, 3) ?? [])
  const examples = new Map<string, string>()
  for (let i = 0; i < listed.length; i += 2) examples.set(listed[i]!, listed[i + 1]!)
  expect([...examples.keys()].sort()).toEqual(settingNames().sort())
  expect(readSettings(Object.fromEntries([...examples].filter(([, value]) => value)))).toEqual(readSettings({}))
})

test('an error names every wrong variable, what it was, and what it may be, but never a URL', () => {
  const wrong = {
    PORT: '80800',
    RATE_LIMIT_PER_MINUTE: '0',
    SLUICE_DEVNET: 'no',
    DATABASE_URL: 'mysql://user:secret@host/db',
    ETH_FINALITY: 'soon',
    POLYGON_RPC_URL: 'secret.example',
    ETH_USDC_ADDRESS: '0x12',
  }
  let message = ''
  try {
    readSettings(wrong)
  } catch (error) {
    message = (error as Error).message
  }
  expect(message).toMatchInlineSnapshot(`
    "settings that cannot be used:
      SLUICE_DEVNET (it is "no"): must be one of on, off
      DATABASE_URL: must be a URL that starts with postgres:// or postgresql://
      PORT (it is "80800"): must be a whole number, from 0 to 65535
      RATE_LIMIT_PER_MINUTE (it is "0"): must be a whole number, 1 or more
      ETH_FINALITY (it is "soon"): must be tag, or a number of blocks
      ETH_USDC_ADDRESS (it is "0x12"): must be a contract address: 0x and 40 hex digits
      POLYGON_RPC_URL: must be a URL that starts with http:// or https:// or ws:// or wss://"
  `)
  expect(message).not.toContain('secret')
})

test('a variable that is set to nothing is as good as not set', () => {
  expect(readSettings({PORT: '', ETH_RPC_URL: '', ETH_FINALITY: ''})).toEqual(readSettings({}))
})

test('where browsers reach the API is an http or https URL, with nothing behind its path', () => {
  const read = (PUBLIC_URL: string) => readSettings({PUBLIC_URL}).publicUrl
  expect(readSettings({}).publicUrl).toBeUndefined()
  expect(read('https://pay.example')).toBe('https://pay.example')
  expect(read('http://127.0.0.1:8080/sluice//')).toBe('http://127.0.0.1:8080/sluice')
  expect(read('https:Pay.example/a shop/')).toBe('https://pay.example/a%20shop')
  for (const wrong of [
    'pay.example',
    'ftp://pay.example',
    'javascript:alert(1)',
    'https://a@pay.example',
    'https://pay.example/?a=1',
  ])
    expect(() => read(wrong), wrong).toThrow('PUBLIC_URL: must ')
})

test('what may hold a password can be given by a file; an empty file is as good as none, and an error never tells what is in it', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-settings-'))
  const file = (name: string, content: string) => {
    writeFileSync(path.join(folder, name), content)
    return path.join(folder, name)
  }
  const database = file('database', 'postgres://sluice:secret@host/sluice\n')
  const read = (name: string, content: string) => readSettings({[`${name}_FILE`]: file('value', content)})
  try {
    expect(readSettings({DATABASE_URL_FILE: database})).toEqual(
      readSettings({DATABASE_URL: 'postgres://sluice:secret@host/sluice'}),
    )
    for (const [name, value] of [
      ['ETH_RPC_URL', 'wss://user:secret@node.example'],
      ['BTC_RPC_URL', 'http://user:secret@node.example'],
      ['BTC_ELECTRUM_URLS', 'tcp://one.example:50001,tls://two.example:50002'],
    ] as const) {
      expect(read(name, `${value}\n`)).toEqual(readSettings({[name]: value}))
      expect(read(name, '\n')).toEqual(readSettings({}))
      expect(settingNames()).toContain(`${name}_FILE`)
    }
    expect(() => read('DATABASE_URL', 'mysql://secret')).toThrow(
      `\n  DATABASE_URL_FILE (${folder}/value): must be a URL that starts with postgres://`,
    )
    expect(() => readSettings({ETH_RPC_URL_FILE: path.join(folder, 'none')})).toThrow(
      `ETH_RPC_URL_FILE: ${folder}/none cannot be read (ENOENT)`,
    )
    expect(() => readSettings({DATABASE_URL: 'postgres://host/other', DATABASE_URL_FILE: database})).toThrow(
      'DATABASE_URL, DATABASE_URL_FILE: set one of them, not both',
    )
  } finally {
    rmSync(folder, {recursive: true})
  }
})
