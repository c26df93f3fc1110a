// The checks of a node (docs/operations/node.md), on the local chain of Tron, whose two APIs are given as java-tron's.
import {mkdtempSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {expect, onTestFinished, test, vi} from 'vitest'
import {startDevnet} from '../../devnet/start.ts'
import {faucetKey} from '../../devnet/tron/constants.ts'
import {tron} from '../../devnet/tron/family.ts'
import {checkNode} from '../conformance/node/run.ts'

const limitMs = 120_000

test('a node of Tron whose two ports are named passes every check of a node', {timeout: 600_000}, async () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'tron-node-'))
  onTestFinished(() => rmSync(dir, {recursive: true}))
  const {devnet, stop} = await startDevnet(tron, {chain: 'TRON', dir, blockIntervalMs: 300})
  onTestFinished(stop)
  const {url} = devnet
  vi.stubEnv('TRON_SOLIDITY_URL', url)
  onTestFinished(() => void vi.unstubAllEnvs())
  const key = Buffer.from(faucetKey).toString('hex')
  const results = await checkNode({chain: 'TRON', url, key, limitMs, mayReorganise: false})
  const wrong = results.filter(({name, verdict}) => verdict !== 'right' && !name.startsWith('a reorganisation'))
  expect(wrong).toEqual([])
  expect(results).toHaveLength(14)
})
