// Custody as a process, as the supervisor starts it, and a client of its socket. Promises: each start waits until the
// socket responds.
import {type ChildProcess, fork} from 'node:child_process'
import {once} from 'node:events'
import {readFileSync} from 'node:fs'
import {request} from 'node:http'
import {fileURLToPath} from 'node:url'
import {custodySocket} from '../../base/home.ts'
import type {TestDatabase} from './database.ts'

export interface Response {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: the tests say what they expect of it
  body: any
}

export interface CustodyProcess {
  process: ChildProcess
  /** Its log so far. */
  log(): string
  /** Sends a request with the token of its token file, or with another token. */
  ask(path: string, body: unknown, token?: string): Promise<Response>
}

const module = fileURLToPath(new URL('../../custody/main.ts', import.meta.url))

/** Starts it without waiting for it. */
export function spawnCustody(db: TestDatabase, home: string, settings: Record<string, string> = {}): CustodyProcess {
  const child = fork(module, {
    env: {
      ...process.env,
      DATABASE_URL: db.url('sluice_custody'),
      SLUICE_HOME: home,
      ADDRESS_POOL_SIZE: '20',
      LOG_LEVEL: 'trace',
      ...settings,
    },
    execArgv: [],
    silent: true,
  })
  let text = ''
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.on('data', data => {
      text += data
    })
  }
  return {process: child, log: () => text, ask: (path, body, token) => askCustody(home, path, body, token)}
}

export async function startCustody(
  db: TestDatabase,
  home: string,
  settings: Record<string, string> = {},
): Promise<CustodyProcess> {
  const custody = spawnCustody(db, home, settings)
  const ended = once(custody.process, 'exit').then(([code]) => {
    throw new Error(`custody ended with ${code}:\n${custody.log()}`)
  })
  ended.catch(() => {}) // every test ends it
  await Promise.race([once(custody.process, 'message', {signal: AbortSignal.timeout(60_000)}), ended])
  return custody
}

/** Kills it with SIGKILL, and waits for its end. */
export async function killCustody({process}: CustodyProcess): Promise<void> {
  if (process.exitCode !== null || process.signalCode !== null) return
  const exited = once(process, 'exit')
  process.kill('SIGKILL')
  await exited
}

export async function askCustody(home: string, path: string, body: unknown, token?: string): Promise<Response> {
  const {socket, tokenFile} = custodySocket(home)
  const authorization = `Bearer ${token ?? readFileSync(tokenFile, 'utf8')}`
  return await new Promise((resolve, reject) => {
    const headers = {authorization, 'content-type': 'application/json'}
    const asked = request({socketPath: socket, path, method: 'POST', headers}, response => {
      let text = ''
      response.on('data', data => {
        text += data
      })
      response.on('end', () => resolve({status: response.statusCode!, body: text ? JSON.parse(text) : undefined}))
      response.on('error', reject)
    })
    asked.on('error', reject)
    asked.end(typeof body === 'string' ? body : JSON.stringify(body))
  })
}
