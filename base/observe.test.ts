import {execFile} from 'node:child_process'
import {createServer, type Server} from 'node:net'
import {promisify} from 'node:util'
import {afterEach, expect, test} from 'vitest'
import {freePort} from '../devnet/listen.ts'
import {announceReady} from './lifecycle.ts'
import {logger} from './log.ts'
import {observe} from './observe.ts'

const log = logger('test')
log.level = 'silent'
let ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends) await end()
  ends = []
})

async function serve(text?: () => Promise<string>): Promise<string> {
  const metricsPort = await freePort()
  ends.push(await observe({host: '127.0.0.1', metricsPort, log, text}))
  return `http://127.0.0.1:${metricsPort}`
}

test('/metrics is in Prometheus format with metrics of the process; /livez is 200 while it lives', async () => {
  const url = await serve()
  const metrics = await fetch(`${url}/metrics`)
  expect(metrics.headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/)
  const text = await metrics.text()
  for (const name of ['process_cpu_seconds_total', 'process_resident_memory_bytes', 'nodejs_eventloop_lag_seconds'])
    expect(text).toMatch(new RegExp(`^# TYPE ${name} (counter|gauge)$`, 'm'))
  const alive = await fetch(`${url}/livez?x=1`)
  expect([alive.status, await alive.json()]).toEqual([200, {alive: true}])
})

test('/readyz is 503 until the process does its work', async () => {
  const ready = async () => {
    const response = await fetch(`${url}/readyz`)
    return [response.status, await response.json()]
  }
  const url = await serve()
  expect(await ready()).toEqual([503, {ready: false}])
  announceReady()
  expect(await ready()).toEqual([200, {ready: true}])
})

test('a process that only waits is not woken to be measured', async () => {
  const program = `
    const {observe} = await import('./base/observe.ts')
    await observe({host: '127.0.0.1', log: {info() {}}})
    const switches = () => process.resourceUsage().voluntaryContextSwitches
    await new Promise(resolve => setTimeout(resolve, 500)) // the start is over
    const before = switches()
    await new Promise(resolve => setTimeout(resolve, 1000))
    console.log(switches() - before)`
  const root = new URL('..', import.meta.url)
  const {stdout} = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], {cwd: root})
  expect(Number(stdout)).toBeLessThan(50)
})

test('other paths are 404, other methods 405, and metrics that cannot be read are 500 without a reason', async () => {
  const url = await serve(() => Promise.reject(new Error('the password is wrong')))
  expect((await fetch(url)).status).toBe(404)
  expect((await fetch(`${url}/metrics/..%2f`)).status).toBe(404)
  const refused = await fetch(`${url}/livez`, {method: 'POST', body: '{}'})
  expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
  const failed = await fetch(`${url}/metrics`)
  expect([failed.status, await failed.text()]).toEqual([500, ''])
})

test('without METRICS_PORT nothing listens; a port in use is an error that names it', async () => {
  await (await observe({host: '127.0.0.1', log}))()
  const squatter: Server = createServer()
  const metricsPort = await freePort()
  await new Promise<void>(resolve => squatter.listen(metricsPort, '127.0.0.1', resolve))
  ends.push(() => squatter.close())
  await expect(observe({host: '127.0.0.1', metricsPort, log})).rejects.toThrow(
    `the metrics cannot listen on 127.0.0.1:${metricsPort} (METRICS_PORT): another program listens there`,
  )
})

test('the metrics server does not keep a process from ending', async () => {
  const metricsPort = await freePort()
  const program = `
    const {observe} = await import('./base/observe.ts')
    await observe({host: '127.0.0.1', metricsPort: ${metricsPort}, log: {info() {}}})
    console.log((await fetch('http://127.0.0.1:${metricsPort}/livez')).status)`
  const root = new URL('..', import.meta.url)
  const {stdout} = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], {
    cwd: root,
    timeout: 10_000,
  })
  expect(stdout).toBe('200\n')
})
