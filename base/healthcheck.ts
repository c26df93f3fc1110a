// Checks the health of a process: node base/healthcheck.ts URL, or unix:PATH for a socket. Exit code 0 if the URL
// responds with a status of 200 to 299, or a process listens at the socket, within five seconds; else 1, with the
// reason on stderr. It is for containers, whose image then needs no program like curl.
import {once} from 'node:events'
import {connect} from 'node:net'

const timeoutMs = 5000

async function main(address: string): Promise<void> {
  const signal = AbortSignal.timeout(timeoutMs)
  if (address.startsWith('unix:')) {
    const socket = connect(address.slice('unix:'.length))
    await once(socket, 'connect', {signal})
    socket.destroy()
    return
  }
  const response = await fetch(address, {signal})
  if (!response.ok) throw new Error(`it responds with ${response.status}: ${(await response.text()).slice(0, 500)}`)
}

const address = process.argv[2] ?? ''
main(address).catch((error: Error) => {
  const why = error.cause instanceof Error ? error.cause.message : error.message
  console.error(`healthcheck: ${address || 'no URL is given'}: ${why}`)
  process.exit(1)
})
