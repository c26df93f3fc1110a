// Ports for programs under test that have to be told one.
import {createServer} from 'node:net'

/** So many ports in a row on which nothing listens; below those that the system gives to outgoing connections, which come and go. */
export async function portsInARow(count: number): Promise<number> {
  for (;;) {
    const first = 10_000 + Math.floor(Math.random() * 20_000)
    const free = await Promise.all(Array.from({length: count}, (_, i) => isFree(first + i)))
    if (free.every(Boolean)) return first
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  return await new Promise(resolve => {
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
