// The devnet commands with a running local chain: their output and their errors.
import {execFile} from 'node:child_process'
import {mkdtemp, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {writeService} from '../base/home.ts'
import type {EvmClient} from './evm/client.ts'
import {evm} from './evm/family.ts'
import {type Started, startDevnet} from './start.ts'

const to = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'
let home: string
let devnet: Started<EvmClient>

beforeAll(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'sluice-devnet-cli-'))
  devnet = await startDevnet(evm, {chain: 'ETH', dir: path.join(home, 'devnet', 'eth')})
})

afterAll(async () => {
  await devnet.stop()
  await rm(home, {recursive: true, force: true})
})

async function cli(line: string): Promise<{code: number; stdout: string; stderr: string}> {
  const program = path.join(import.meta.dirname, 'cli.ts')
  return await new Promise(resolve => {
    execFile(
      process.execPath,
      [program, ...line.split(' ')],
      {env: {...process.env, SLUICE_HOME: home}},
      (error, stdout, stderr) => resolve({code: Number(error?.code ?? 0), stdout, stderr}),
    )
  })
}

/** The single line of JSON on stdout. */
async function json(line: string): Promise<unknown> {
  const {code, stdout, stderr} = await cli(`${line} --json`)
  expect({code, stderr, lines: stdout.split('\n').length}).toEqual({code: 0, stderr: '', lines: 2})
  return JSON.parse(stdout)
}

test('send prints the txid of a mined payment, and mine and reorg print the new head', async () => {
  const {txid} = (await json(`send --chain ETH --token USDC --to ${to} --amount 12.5`)) as {txid: string}
  expect(await devnet.client.rpc('eth_getTransactionReceipt', [txid])).toMatchObject({status: '0x1'})
  const {height} = await devnet.client.head()
  expect(await json('mine --chain eth --blocks 1000')).toEqual({
    chain: 'ETH',
    height: height + 1000,
    hash: (await devnet.client.head()).hash,
  })
  const reorg = await json('reorg --chain ETH --depth 3 --keep-transactions')
  const {timestamp: _, ...head} = await devnet.client.head()
  expect(reorg).toEqual({chain: 'ETH', depth: 3, head})
  expect(head.height).toBe(height + 1001)
})

test('a command that fails prints the reason to stderr and exits with 1', async () => {
  const send = `send --chain ETH --token USDC --to ${to} --amount`
  const failures = {
    [`${send} 1.0000001`]: 'USDC has 6 decimals; 1.0000001 has 7',
    [`${send} 1e3`]: '1e3 is not an amount such as 12 or 0.5',
    [`${send} 0`]: 'the amount must be above zero',
    [`${send} 0.000`]: 'the amount must be above zero',
    [`${send} 9999999999999`]: 'transfer amount exceeds balance',
    'send --chain ETH --token POL --to 0x0000000000000000000000000000000000000001 --amount 1':
      'the local ETH chain has no POL; it has ETH, USDC, EURC, JPYC, USDT',
    'send --chain ETH --token ETH --to 0x12 --amount 1': '0x12 is not an EVM address',
    [`${send} 1 --fee-rate 5`]: 'a payment on ETH has no fee rate',
    'mine --chain DOGE --blocks 1': 'there is no local chain DOGE; there are ETH, POLYGON, BTC',
    'mine --chain POLYGON --blocks 1': `no local POLYGON chain runs in ${home}`,
    'reorg --chain ETH --depth 100000': 'cannot replace 100000 blocks',
    [`reorg --chain ETH --depth 1 --double-spend ${'0'.repeat(64)}`]:
      'a reorganisation of an EVM chain either mines all',
  }
  await Promise.all(
    Object.entries(failures).map(async ([line, message]) => {
      const {code, stdout, stderr} = await cli(line)
      expect({line, code, stdout}).toEqual({line, code: 1, stdout: ''})
      expect(stderr).toContain(message)
    }),
  )
})

test('a wrong command line exits with 2', async () => {
  const wrong = {
    'mine --chain ETH --blocks none': 'It must be a whole number',
    reorg: "required option '--chain <chain>' not specified",
    'nothing --chain ETH': "unknown command 'nothing'",
    'mine --chain ETH --blocks 1 --fast': "unknown option '--fast'",
  }
  for (const [line, message] of Object.entries(wrong))
    expect(await cli(line), line).toEqual({code: 2, stdout: '', stderr: expect.stringContaining(message)})
  expect(await cli('--help')).toMatchObject({code: 0, stderr: ''})
})

test('a chain that the service follows at a node of the settings is named as such', async () => {
  const rpc_url = 'https://node.example/secret'
  writeService(home, {
    pid: process.pid,
    started_at: new Date().toISOString(),
    running: true,
    api_url: 'http://127.0.0.1:1',
    database_url: 'postgres://127.0.0.1:1/x',
    webhook_allow_private: false,
    chains: {POLYGON: {rpc_url, local: false, settings: {}}},
  })
  const {code, stderr} = await cli('mine --chain POLYGON --blocks 1')
  expect(code).toBe(1)
  expect(stderr).toMatch(/^error: the service of .* follows POLYGON at a node of the settings, which is no local chain/)
  expect(stderr).not.toContain('secret')
})
