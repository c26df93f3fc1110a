// How the servers of a local chain listen: on 127.0.0.1, and on the same port after a restart if it is free.
import {type AddressInfo, createServer, type Server} from 'node:net'
import type {JournalFile} from './sqlite.ts'

/**
 * Makes a server of a chain listen on its previous port (stored under this name) if that is free. Resolves to the port.
 */
export async function listenAgain(journal: JournalFile, name: string, server: Listens): Promise<number> {
  const port = await server.listen(Number(journal.meta(name) ?? Number.NaN) || undefined)
  journal.setMeta(name, String(port))
  return port
}

interface Listens {
  /** Listens on this port, or on a free one if it is in use or undefined. Resolves to the port. */
  listen(port: number | undefined): Promise<number>
}

/** Listens on this port, or on a free one if it is in use or undefined. Resolves to the port. */
export async function listenLocally(server: Server, port: number | undefined): Promise<number> {
  if (port !== undefined && (await listen(server, port))) return port
  if (!(await listen(server, 0))) throw new Error('this machine has no free port on 127.0.0.1')
  return (server.address() as AddressInfo).port
}

/** A free port. */
export async function freePort(): Promise<number> {
  const server = createServer()
  const port = await listenLocally(server, undefined)
  await new Promise(resolve => server.close(resolve))
  return port
}

async function listen(server: Server, port: number): Promise<boolean> {
  return await new Promise((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException) => (error.code === 'EADDRINUSE' ? resolve(false) : reject(error))
    server.once('error', failed)
    server.listen(port, '127.0.0.1', () => {
      server.off('error', failed)
      resolve(true)
    })
  })
}
