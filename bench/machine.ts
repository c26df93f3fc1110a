// What the machine itself does, without Sluice: SHA-256 on one core, one-row commits/s of the embedded Postgres with
// fsync on, and requests/s of a bare node:http server with 20 connections. A whole run measures it first and last.
//
// node bench/machine.ts serve is the bare server.
import {createHash} from 'node:crypto'
import http from 'node:http'
import type {AddressInfo} from 'node:net'
import autocannon from 'autocannon'
import {start} from './api.ts'
import {withDatabase} from './database.ts'
import {median, type Report} from './result.ts'

const rounds = 3
const roundMs = 1000

export async function benchMachine(report: Report): Promise<void> {
  const buffer = Buffer.alloc(1_000_000)
  const hashed = await perSecond(async () => createHash('sha256').update(buffer).digest())
  report({what: 'SHA-256, one core', value: hashed, unit: 'MB/s'})
  await withDatabase(async ({pool}) => {
    await pool.query('create table one_row (n int)')
    const commits = await perSecond(() => pool.query('insert into one_row values (1)'))
    report({what: 'one-row commits, one client', value: commits, unit: 'commits/s'})
  })
  const {child, url} = await start(new URL(import.meta.url), ['serve'], {})
  const rates: number[] = []
  for (let round = 0; round <= rounds; round++) {
    const {requests, duration} = await autocannon({url, connections: 20, duration: roundMs / 1000, setupClient() {}})
    rates.push(requests.total / duration)
  }
  child.kill()
  const [, ...warm] = rates // the first one is slower: nothing is compiled yet
  report({what: 'bare node:http, 20 connections', value: median(warm), unit: 'requests/s'})
}

async function perSecond(work: () => Promise<unknown>): Promise<number> {
  const rates: number[] = []
  for (let round = 0; round < rounds; round++) {
    const began = performance.now()
    let done = 0
    for (; performance.now() - began < roundMs; done++) await work()
    rates.push((done * 1000) / (performance.now() - began))
  }
  return median(rates)
}

if (import.meta.main) {
  const server = http
    .createServer((_, response) => response.end('{}'))
    .listen(0, '127.0.0.1', () => {
      process.send!({url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`})
    })
  process.on('disconnect', () => process.exit())
}
