// The program with which containers check their health.
import {execFile} from 'node:child_process'
import {mkdtempSync, rmSync} from 'node:fs'
import {createServer, type Server} from 'node:http'
import type {AddressInfo} from 'node:net'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {beforeAll, expect, test} from 'vitest'

const program = fileURLToPath(new URL('healthcheck.ts', import.meta.url))
let server: Server
let url: string

beforeAll(async () => {
  server = createServer((request, response) => {
    response.statusCode = request.url === '/livez' ? 200 : 503
    response.end('{"waiting_for":["ETH"]}')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

function check(...given: string[]): Promise<{code: number; stderr: string}> {
  return new Promise(resolve => {
    execFile(process.execPath, [program, ...given], (error, _, stderr) =>
      resolve({code: error ? Number(error.code) : 0, stderr}),
    )
  })
}

test('a process that responds is healthy; one that refuses, or does not respond, is unhealthy with a reason', async () => {
  expect(await check(`${url}/livez`)).toEqual({code: 0, stderr: ''})
  expect(await check(`${url}/readyz`)).toEqual({
    code: 1,
    stderr: `healthcheck: ${url}/readyz: it responds with 503: {"waiting_for":["ETH"]}\n`,
  })
  await new Promise(resolve => server.close(resolve))
  expect(await check(`${url}/livez`)).toEqual({code: 1, stderr: expect.stringMatching(/ECONNREFUSED/)})
  expect(await check()).toEqual({code: 1, stderr: expect.stringMatching(/no URL is given/)})
})

test('a socket is healthy if a process listens on it', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-socket-'))
  const socket = path.join(folder, 'endpoint.sock')
  const listening = createServer()
  await new Promise<void>(resolve => listening.listen(socket, resolve))
  expect(await check(`unix:${socket}`)).toEqual({code: 0, stderr: ''})
  await new Promise(resolve => listening.close(resolve))
  expect(await check(`unix:${socket}`)).toEqual({code: 1, stderr: expect.stringMatching(/ENOENT|ECONNREFUSED/)})
  rmSync(folder, {recursive: true})
})
