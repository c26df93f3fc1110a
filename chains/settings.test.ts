import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import fc from 'fast-check'
import {expect, test} from 'vitest'
import {PermanentError} from '../base/errors.ts'
import {logger} from '../base/log.ts'
import {familyOf} from './families.ts'
import {dashboardUrlOf, factsOf, readSettings, settingNames, settingsFrom} from './settings.ts'

const lines = readFileSync(new URL('../.env.example', import.meta.url), 'utf8').split('\n')
/** The variables of .env.example, with their defaults. */
const examples = new Map(
  lines.flatMap(line => {
    const [, name, value] = /^#?([A-Z][A-Z0-9_]*)=(.*)$/.exec(line) ?? []
    return name === undefined ? [] : [[name, value] as const]
  }),
)

/** The problems of these variables, one line each, without the two leading spaces; empty if there are none. */
function problemsOf(environment: Record<string, string | undefined>): string[] {
  try {
    readSettings(environment)
    return []
  } catch (error) {
    expect(error).toBeInstanceOf(PermanentError)
    const [title, ...problems] = (error as Error).message.split('\n')
    expect(title).toBe('these settings are wrong:')
    return problems.map(line => line.replace(/^ {2}/, ''))
  }
}

test('.env.example lists every variable, with a comment and its default', () => {
  expect([...examples.keys()].sort()).toEqual(settingNames().sort())
  expect(readSettings(Object.fromEntries([...examples].filter(([, value]) => value)))).toEqual(readSettings({}))
})

test('an error names every wrong variable, its value, and the allowed values, but never a URL', () => {
  const wrong = {
    PORT: '80800',
    RATE_LIMIT_PER_MINUTE: '0',
    SLUICE_DEVNET: 'no',
    DATABASE_URL: 'mysql://user:secret@host/db',
    ETH_FINALITY: 'soon',
    POLYGON_RPC_URL: 'secret.example',
    ETH_USDC_CONTRACT: '0x12',
  }
  const problems = problemsOf(wrong).join('\n')
  expect(problems).toMatchInlineSnapshot(`
    "SLUICE_DEVNET (it is "no"): must be on, off, or the chains that run on local ones, such as ETH,BTC (of ETH, SOL, TRON, BTC, POLYGON)
    DATABASE_URL: must be a URL that starts with postgres:// or postgresql://, such as postgres://owner:password@host:5432/sluice
    PORT (it is "80800"): must be a whole number, from 0 to 65535, such as 8080
    RATE_LIMIT_PER_MINUTE (it is "0"): must be a whole number, from 1 to 10000000, such as 600
    ETH_USDC_CONTRACT (it is "0x12"): must be a contract address: 0x and 40 hex digits, such as 0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238
    ETH_FINALITY (it is "soon"): must be tag, or a number of blocks from 1 to 999999, such as 64
    POLYGON_RPC_URL: must be a URL that starts with http:// or https:// or ws:// or wss://, such as https://node.example"
  `)
  expect(problems).not.toContain('secret')
})

test('an amount of an unknown token, or with more decimals than its token, is refused with the allowed form and what is wrong', () => {
  const must =
    'must be amounts in whole coins, one for each token of ETH at most (ETH, USDC), such as ETH:0.5,USDC:10000'
  for (const wrong of ['5', 'abc', 'ETH', 'BTC:1', 'eth:1'])
    expect(problemsOf({ETH_PAYOUT_LIMIT: wrong})).toEqual([
      `ETH_PAYOUT_LIMIT (it is "${wrong}"): ${must}; "${wrong}" names no token of it`,
    ])
  for (const wrong of ['', 'abc', '-1', ' 1', '1e3', '.5', '1 USDC:2', '0.0000000000000000001', '9'.repeat(31)])
    expect(problemsOf({ETH_COLLECT_ABOVE: `ETH:${wrong}`})).toEqual([
      `ETH_COLLECT_ABOVE (it is "ETH:${wrong}"): ${must}; "${wrong}" is no amount of ETH, which has 18 decimals`,
    ])
  expect(problemsOf({ETH_PAYOUT_LIMIT: 'USDC:0.0000001'})).toEqual([
    `ETH_PAYOUT_LIMIT (it is "USDC:0.0000001"): ${must}; "0.0000001" is no amount of USDC, which has 6 decimals`,
  ])
  expect(problemsOf({ETH_COLLECT_ABOVE: 'ETH:1,'})).toEqual([
    `ETH_COLLECT_ABOVE (it is "ETH:1,"): ${must}; "" names no token of it`,
  ])
  expect(problemsOf({ETH_COLLECT_ABOVE: 'ETH:1,ETH:2'})).toEqual([
    `ETH_COLLECT_ABOVE (it is "ETH:1,ETH:2"): ${must}; ETH is named twice`,
  ])
  const {payoutLimit} = readSettings({ETH_PAYOUT_LIMIT: 'USDC:10000.5,ETH:5'}).chains.get('ETH')!
  expect(payoutLimit).toEqual(
    new Map([
      ['USDC', 10_000_500_000n],
      ['ETH', 5n * 10n ** 18n],
    ]),
  )
})

test('an amount of the native coin is refused with the allowed form, if it has more decimals than the coin', () => {
  const must = 'must be an amount of BTC in whole coins, with at most 8 decimals, such as 0.05'
  for (const wrong of [' ', 'abc', '-1', '1e3', '.5', '5.', 'BTC:1', '1,BTC:2', '0.000000001', '9'.repeat(31)])
    expect(problemsOf({BTC_FEE_BUDGET: wrong})).toEqual([`BTC_FEE_BUDGET (it is "${wrong}"): ${must}`])
  const {chains} = readSettings({BTC_FEE_BUDGET: '0.00000001', ETH_TOKEN_SWEEP_FEE: '2.5'})
  expect([chains.get('BTC'), chains.get('ETH')]).toMatchObject([
    {feeBudget: 1n, sweepFeePercent: 50},
    {feeBudget: 5n * 10n ** 17n, tokenSweepFee: 25n * 10n ** 17n},
  ])
})

test('the smallest payout is the setting or the default, and never less than the minimum of the chain', () => {
  const read = (more: Record<string, string>) =>
    Object.fromEntries(
      [...readSettings(more).chains].map(([code, {minPayout}]) => [code, Object.fromEntries(minPayout)]),
    )
  const usual = {
    ETH: {ETH: 10n ** 15n, USDC: 1_000_000n},
    POLYGON: {POL: 10n ** 16n, USDC: 100_000n},
    BTC: {BTC: 5_000n},
    TRON: {TRX: 2_000_000n, USDT: 5_000_000n},
    SOL: {SOL: 1_000_000n, USDC: 1_000_000n, USDT: 1_000_000n},
  }
  expect(read({})).toEqual(usual)
  expect(read({ETH_MIN_PAYOUT: 'USDC:2.5', BTC_MIN_PAYOUT: 'BTC:0.00000545', POLYGON_MIN_PAYOUT: 'POL:0'})).toEqual({
    ETH: {ETH: 10n ** 15n, USDC: 2_500_000n},
    POLYGON: {POL: 1n, USDC: 100_000n},
    BTC: {BTC: 546n},
    TRON: usual.TRON,
    SOL: usual.SOL,
  })
  // On Tron a payout may cost TRON_MAX_PAYMENT_FEE, whoever gets it.
  expect(read({TRON_MIN_PAYOUT: 'TRX:0.5'}).TRON).toEqual({TRX: 1_100_000n, USDT: 5_000_000n})
  expect(read({TRON_MAX_PAYMENT_FEE: '3'}).TRON).toEqual({TRX: 3_000_000n, USDT: 5_000_000n})
  expect(read({TRON_MIN_PAYOUT: 'TRX:0.5', TRON_MAX_PAYMENT_FEE: '0.3'}).TRON).toEqual({
    TRX: 500_000n,
    USDT: 5_000_000n,
  })
})

test('Tron: walletsolidity/… is asked at the same URL unless another is set, and nothing is set without what it belongs to', () => {
  const endpoints = (more: Record<string, string>) => {
    const settings = readSettings(more).chains.get('TRON')
    return settings?.family === 'tron' ? settings.endpoints : undefined
  }
  const [a, b, c] = ['http://a.example:8090', 'http://a.example:8091', 'http://b.example']
  expect(endpoints({})).toEqual([])
  expect(endpoints({TRON_RPC_URL: a!})).toEqual([{url: a, solidityUrl: a}])
  expect(endpoints({TRON_RPC_URL: a!, TRON_SOLIDITY_URL: b!, TRON_RPC_URL_2: c!})).toEqual([
    {url: a, solidityUrl: b},
    {url: c, solidityUrl: c},
  ])
  for (const [name, needed] of [
    ['TRON_SOLIDITY_URL', 'TRON_RPC_URL'],
    ['TRON_RPC_URL_2', 'TRON_RPC_URL'],
    ['TRON_SOLIDITY_URL_2', 'TRON_RPC_URL_2'],
  ] as const)
    expect(problemsOf({[name]: a!})).toEqual([
      `${name}: has no effect without ${needed}: set that, too, such as http://node.example:8090`,
    ])
})

test('another process reads a chain of Tron with the same settings', () => {
  const given = {
    TRON_NETWORK: 'shasta',
    TRON_RPC_URL: 'http://a.example:8090',
    TRON_SOLIDITY_URL: 'http://a.example:8091',
    TRON_RPC_URL_2: 'http://b.example',
    TRON_API_KEY: 'secret',
  }
  const settings = readSettings(given).chains.get('TRON')!
  expect(settingsFrom('TRON', factsOf(settings).settings)).toEqual(settings)
})

test('a passphrase is never shown, however short, nor a value given instead of the name of its file', () => {
  expect(problemsOf({CUSTODY_PASSPHRASE: 'hunter2'})).toEqual([
    'CUSTODY_PASSPHRASE: must have at least 8 characters, such as six random words',
  ])
  for (const wrong of ['postgres://sluice:hunter2@host/sluice', '/hunter2', 'hunter2'])
    expect(problemsOf({DATABASE_URL_FILE: wrong})).toEqual([
      'DATABASE_URL_FILE: the file cannot be read (ENOENT); it must hold the value, such as DATABASE_URL_FILE=/run/secrets/database_url',
    ])
})

test('main networks are refused unless SLUICE_MAINNET allows them', () => {
  const refusal = (example: number) =>
    `must be the id of a test network, such as ${example}; coins of this one are worth money (see SLUICE_MAINNET in docs/operations.md)`
  const main = {ETH_CHAIN_ID: '1', POLYGON_CHAIN_ID: '137'}
  expect(problemsOf(main)).toEqual([
    `ETH_CHAIN_ID (it is "1"): ${refusal(11_155_111)}`,
    `POLYGON_CHAIN_ID (it is "137"): ${refusal(80_002)}`,
  ])
  expect(problemsOf({ETH_CHAIN_ID: '137'})).toHaveLength(1)
  expect(problemsOf({BTC_NETWORK: 'mainnet'})).toHaveLength(1)
  for (const no of ['1', 'yes', 'By-Arrangement'])
    expect(problemsOf({...main, SLUICE_MAINNET: no})[0]).toBe(
      `SLUICE_MAINNET (it is "${no}"): must be by-arrangement, or not set`,
    )
  const allowed = readSettings({...main, SLUICE_MAINNET: 'by-arrangement'})
  expect([allowed.mainnet, readSettings({}).mainnet]).toEqual([true, false])
  expect(allowed.chains.get('ETH')).toMatchObject({chainId: 1})
})

test('any value of a setting is accepted, or refused with an error that names it, shows an example and shows no secret', () => {
  const nearly = fc.constantFrom(
    ...[
      '5',
      '-1',
      '0x10',
      '1e3',
      '1e400',
      '9'.repeat(400),
      ' ',
      '.',
      '/',
      '..',
      'NaN',
      'null',
      '__proto__',
      'toString',
      '[]',
      '[{}]',
      '[null, 5, {"code": "EURC", "decimals": -1, "sweep": {"by": "air"}, "more": 1}]',
    ],
    ...['ETH:abc', 'ETH:5,', ':', ',', 'USDC:', 'tag', '0', 'http://', 'https://%zz', 'postgres://%', 'tcp://x:99999'],
    ...['tls://[::1:1', '0x', 'by-arrangement ', '\ud800', 'LICENSE', 'x'.repeat(5000)],
  )
  const garbage = fc.oneof(nearly, fc.string({unit: 'binary', maxLength: 50}), fc.string(), fc.webUrl())
  const name = fc.constantFrom(...examples.keys())
  const one = fc.tuple(name, garbage, garbage)
  const many = fc.uniqueArray(one, {selector: ([name]) => name, minLength: 1, maxLength: examples.size, size: 'max'})
  const values = fc
    .oneof(
      many,
      one.map(only => [only]),
    )
    .map(chosen =>
      Object.fromEntries(
        chosen.map(([name, before, after]) => {
          const isSecret = /URLS?(_FILE)?$|PASSPHRASE(_FILE)?$/.test(name)
          return [name, isSecret ? `${before}hunter2${after}` : before]
        }),
      ),
    )
  fc.assert(
    fc.property(values, given => {
      for (const problem of problemsOf(given)) {
        const [name] = /^[A-Z0-9_]+/.exec(problem) ?? ['']
        expect(Object.keys(given).some(each => each === name || each === `${name}_FILE`)).toBe(true)
        expect(problem).toMatch(/such as |must be one of |must be by-arrangement|not both/)
        expect(problem).not.toContain('hunter2')
        expect(problem.length).toBeLessThan(1000)
      }
    }),
    {numRuns: 400},
  )
})

test('a process with an invalid log level still reports that error', () => {
  const before = process.env.LOG_LEVEL
  try {
    process.env.LOG_LEVEL = 'loud'
    expect(logger('test').level).toBe('info')
  } finally {
    if (before === undefined) delete process.env.LOG_LEVEL
    else process.env.LOG_LEVEL = before
  }
  expect(problemsOf({LOG_LEVEL: 'loud'})[0]).toMatch(/^LOG_LEVEL \(it is "loud"\): must be one of fatal, /)
})

test('an empty variable counts as not set', () => {
  expect(readSettings({PORT: '', ETH_RPC_URL: '', ETH_FINALITY: ''})).toEqual(readSettings({}))
})

test('a variable that is still set by its old name is refused with the new name, unless it is empty', () => {
  expect(problemsOf({BITCOIN_SOURCE: 'node', BTC_SOURCE: 'node'})).toEqual([
    'BITCOIN_SOURCE: is called BTC_SOURCE now; set BTC_SOURCE instead, and remove BITCOIN_SOURCE',
  ])
  expect(problemsOf({BITCOIN_SOURCE: ''})).toEqual([])
})

test('the public URL of the API is http or https, without a path', () => {
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

test('settings that may hold a password can be read from a file; an empty file counts as not set, and errors never show its content', () => {
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
      ['TRON_API_KEY', 'secret'],
      ['HELIUS_API_KEY', 'secret'],
    ] as const) {
      expect(read(name, `${value}\n`)).toEqual(readSettings({[name]: value}))
      expect(read(name, '\n')).toEqual(readSettings({}))
      expect(settingNames()).toContain(`${name}_FILE`)
    }
    expect(() => read('DATABASE_URL', 'mysql://secret')).toThrow(
      `\n  DATABASE_URL_FILE (${folder}/value): must be a URL that starts with postgres://`,
    )
    expect(() => readSettings({ETH_RPC_URL_FILE: path.join(folder, 'none')})).toThrow(
      `ETH_RPC_URL_FILE (${folder}/none): the file cannot be read (ENOENT); it must hold the value, such as `,
    )
    expect(() => readSettings({DATABASE_URL: 'postgres://host/other', DATABASE_URL_FILE: database})).toThrow(
      'DATABASE_URL, DATABASE_URL_FILE: set one of them, not both',
    )
  } finally {
    rmSync(folder, {recursive: true})
  }
})

test('a Bitcoin chain that is to be read from a node, and has none, lacks its URL', () => {
  const lacking = (environment: Record<string, string>) => {
    const settings = readSettings(environment).chains.get('BTC')!
    return familyOf(settings).lacking?.(settings)
  }
  expect(lacking({BTC_SOURCE: 'node'})).toMatch(/^BTC_SOURCE \(it is "node"\): needs BTC_RPC_URL, such as /)
  expect(lacking({BTC_SOURCE: 'node', BTC_RPC_URL: 'http://a:b@127.0.0.1:1'})).toBeUndefined()
  expect(lacking({})).toBeUndefined()
})

test('SLUICE_HOME is no file, and not below one', () => {
  const file = new URL('../package.json', import.meta.url).pathname
  for (const SLUICE_HOME of [file, `${file}/home`])
    expect(problemsOf({SLUICE_HOME})).toEqual([expect.stringMatching(/^SLUICE_HOME .*must be the name of a directory/)])
  expect(problemsOf({SLUICE_HOME: '/nowhere/at/all'})).toEqual([])
})

test('the dashboard has a URL of its own, unless only this machine reaches it', () => {
  const read = (environment: Record<string, string>) => dashboardUrlOf(readSettings(environment))
  expect(read({})).toBe('http://localhost:8088')
  for (const HOST of ['127.0.0.1', '127.1.2.3', '::1', 'localhost'])
    expect(read({HOST, DASHBOARD_PORT: '9000'})).toBe('http://localhost:9000')
  for (const HOST of ['0.0.0.0', '::', '10.0.0.1', '127.example.com'])
    expect(() => read({HOST})).toThrow(
      /^DASHBOARD_URL must be set where HOST \(.+\) is not of this machine: .*--without/,
    )
  expect(read({HOST: '0.0.0.0', DASHBOARD_URL: 'https://Dash.example/'})).toBe('https://dash.example')
  for (const DASHBOARD_URL of [
    'http://dash.example',
    'https://dash.example/x',
    'https://a@dash.example',
    'ftp://dash.example',
  ])
    expect(problemsOf({DASHBOARD_URL})).toEqual([expect.stringMatching(/^DASHBOARD_URL: must /)])
  for (const DASHBOARD_URL of ['http://localhost:1', 'http://127.0.0.1', 'http://[::1]:8088'])
    expect(problemsOf({DASHBOARD_URL})).toEqual([])
})

test('proxies before the dashboard are addresses or networks, and its secret is long', () => {
  expect(readSettings({DASHBOARD_PROXY: '10.0.0.5, 10.1.0.0/16,::1'}).dashboardProxies).toEqual([
    '10.0.0.5',
    '10.1.0.0/16',
    '::1',
  ])
  for (const DASHBOARD_PROXY of ['proxy', '10.0.0.0/99', 'true', '10.0.0.5,'])
    expect(problemsOf({DASHBOARD_PROXY})).toEqual([
      expect.stringMatching(/^DASHBOARD_PROXY \(it is .+\): must be an IP address/),
    ])
  expect(problemsOf({DASHBOARD_SECRET: 'short'})).toEqual([
    expect.stringMatching(/^DASHBOARD_SECRET: must have at least 32/),
  ])
})
