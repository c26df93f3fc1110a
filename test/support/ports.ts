// Ports for programs under test that need a fixed one.
import {createServer} from 'node:net'

/** This many free ports in a row, below those that the system uses for outgoing connections, which come and go. */
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
