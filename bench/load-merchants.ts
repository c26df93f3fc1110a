// The merchants of the load test (load.ts), in processes of their own, so that what they measure does not wait for what
// pays: one receives every webhook, and one calls the API at a steady rate, whether it responds or not.
//
// node bench/load-merchants.ts receive | ask: started by fork, by load.ts.
import {type ChildProcess, fork} from 'node:child_process'
import {once} from 'node:events'
import http from 'node:http'
import type {AddressInfo} from 'node:net'
import {z} from 'zod'

const tellEveryMs = 200
const askEveryMs = 50
const paths = ['/v1/balances', '/v1/deposits?limit=50'] as const

export type Path = (typeof paths)[number]

const Arrival = z.object({
  type: z.string(),
  id: z.string(),
  deposit_id: z.string(),
  chain: z.string(),
  token: z.string(),
  amount: z.string(),
})

/** A webhook of a deposit, and when it came, by `now`. */
export type Arrival = z.infer<typeof Arrival> & {at: number}

export interface Asked {
  path: Path
  ms: number
  /** 200: it was answered. 0: it is still waiting. */
  status: number
}

/** Milliseconds by one clock for all processes of the machine. */
export const now = (): number => performance.timeOrigin + performance.now()

export interface Receiver {
  url: string
  child: ChildProcess
}

export async function startReceiver(onArrivals: (arrivals: Arrival[]) => void): Promise<Receiver> {
  const child = fork(new URL(import.meta.url), ['receive'])
  const [{port}] = (await once(child, 'message')) as [{port: number}]
  child.on('message', arrivals => onArrivals(arrivals as Arrival[]))
  return {url: `http://127.0.0.1:${port}`, child}
}

export class Asker {
  readonly child = fork(new URL(import.meta.url), ['ask'])

  begin(url: string, keys: string[]): void {
    this.child.send({url, keys})
  }

  /** Every request since the last call. */
  async take(): Promise<Asked[]> {
    this.child.send('report')
    const [asked] = await once(this.child, 'message')
    return asked as Asked[]
  }
}

function receive(): void {
  let arrivals: Arrival[] = []
  const server = http.createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', part => parts.push(part))
    request.on('end', () => {
      const at = now()
      response.writeHead(204).end()
      arrivals.push({...Arrival.parse(JSON.parse(Buffer.concat(parts).toString())), at})
    })
  })
  setInterval(() => {
    if (arrivals.length) process.send!(arrivals)
    arrivals = []
  }, tellEveryMs)
  server.listen(0, '127.0.0.1', () => process.send!({port: (server.address() as AddressInfo).port}))
}

async function ask(): Promise<void> {
  const [{url, keys}] = (await once(process, 'message')) as [{url: string; keys: string[]}]
  let done: Asked[] = []
  const open = new Map<number, {path: Path; began: number}>()
  const askOnce = async (n: number) => {
    const path = paths[n % paths.length]!
    const began = now()
    open.set(n, {path, began})
    const authorization = `Bearer ${keys[Math.floor(n / paths.length) % keys.length]}`
    const status = await fetch(url + path, {headers: {authorization}}).then(
      async response => {
        await response.text()
        return response.status
      },
      () => -1,
    )
    open.delete(n)
    done.push({path, ms: now() - began, status})
  }
  let n = 0
  setInterval(() => void askOnce(n++), askEveryMs)
  process.on('message', () => {
    const waiting = [...open.values()].map(({path, began}) => ({path, ms: now() - began, status: 0}))
    process.send!([...done, ...waiting.filter(({ms}) => ms > tellEveryMs)])
    done = []
  })
}

if (process.argv[1] === import.meta.filename) {
  process.on('disconnect', () => process.exit())
  if (process.argv[2] === 'receive') receive()
  if (process.argv[2] === 'ask') await ask()
}
