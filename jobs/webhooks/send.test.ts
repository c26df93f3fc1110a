// One exchange with every kind of receiver, each a real server on a real socket.

import type {AddressInfo} from 'node:net'
import {createServer, type Server, type Socket} from 'node:net'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {type Outcome, openSender, type Sender} from './send.ts'

let sender: Sender
const servers: Server[] = []
const sockets = new Set<Socket>()
beforeAll(() => {
  sender = openSender({allowPrivate: true})
})
afterAll(async () => {
  await sender.close()
  for (const socket of sockets) socket.destroy()
  for (const server of servers) server.close()
})

/** A server that calls this for each connection once the request has arrived. Returns its URL. */
async function serve(onRequest: (socket: Socket) => void): Promise<string> {
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('data', () => onRequest(socket))
  })
  servers.push(server)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const send = (url: string): Promise<Outcome> => sender.send({url, id: 'evt_1', body: '{}', secrets: ['whsec_AAAA']})
const response =
  (head: string, body = '') =>
  (socket: Socket) =>
    void socket.write(`HTTP/1.1 ${head}\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
const drip = (socket: Socket, text: string) => {
  const timer = setInterval(() => socket.write(text), 100)
  socket.on('close', () => clearInterval(timer))
}
const closed = (socket: Socket) => new Promise<void>(resolve => socket.on('close', () => resolve()))

test.each(['200 OK', '201 Created', '204 No Content', '299 Fine'])('%s is a success', async head => {
  expect(await send(await serve(response(head)))).toEqual({status: Number.parseInt(head, 10)})
})

test('an informational response before the success changes nothing', async () => {
  const url = await serve(socket =>
    socket.write('HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'),
  )
  expect(await send(url)).toEqual({status: 200})
})

test.each([
  ['400 Bad Request', 'answered 400'],
  ['410 Gone', 'answered 410'],
  ['500 Internal Server Error', 'answered 500'],
  ['301 Moved Permanently\r\nlocation: http://127.0.0.1:1/', 'answered 301; redirects are not followed'],
  ['307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/', 'answered 307; redirects are not followed'],
])('%s is a failure', async (head, error) => {
  expect(await send(await serve(response(head)))).toMatchObject({status: Number.parseInt(head, 10), error})
})

test('what the other side says about a refusal is stored: its first 200 characters, and nothing that is not plain text', async () => {
  const body = `{"error":"no such shop\u0000\u001b[31m"}${'x'.repeat(20_000)}`
  const {error} = await send(await serve(response('400 Bad Request', body)))
  const start = '{"error":"no such shop [31m"}'
  expect(error).toBe(`answered 400: ${start}${'x'.repeat(200 - start.length)}`)
})

test('Retry-After is reported', async () => {
  expect(await send(await serve(response('429 Slow Down\r\nretry-after: 60', 'busy')))).toEqual({
    status: 429,
    error: 'answered 429: busy',
    retryAfterMs: 60_000,
  })
})

test.each([
  ['closed', (socket: Socket) => void socket.end()],
  ['reset', (socket: Socket) => void setTimeout(() => socket.resetAndDestroy(), 50)],
])('a success stays one when its connection is %s in the body', async (_how, breakOff) => {
  const url = await serve(socket => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this')
    breakOff(socket)
  })
  expect(await send(url)).toEqual({status: 200})
})

test('an endless body ends with the connection after a few kilobytes, and remains a success', async () => {
  let written = 0
  let whenClosed: Promise<void> | undefined
  const url = await serve(socket => {
    whenClosed = closed(socket)
    socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
    const more = () => {
      while (socket.writable && socket.write(`1000\r\n${'x'.repeat(4096)}\r\n`)) written += 4096
    }
    socket.on('drain', more)
    more()
  })
  expect(await send(url)).toEqual({status: 200})
  await whenClosed
  expect(written).toBeLessThan(10_000_000)
})

test.each([
  ['a closed connection', (socket: Socket) => void socket.end()],
  ['a reset', (socket: Socket) => void socket.resetAndDestroy()],
  ['something that is not HTTP', (socket: Socket) => void socket.write('SSH-2.0-OpenSSH_9.6\r\n\r\n')],
  ['headers without an end', (socket: Socket) => void socket.write(`HTTP/1.1 200 OK\r\nx: ${'x'.repeat(100_000)}`)],
])('%s instead of a response is a failure, with a readable error', async (_what, behave) => {
  const outcome = await send(await serve(behave))
  expect(outcome).toEqual({error: expect.stringMatching(/^[\x20-\x7e]{3,300}$/)})
})

test.each([
  ['nobody listens', 'http://127.0.0.1:1/', /ECONNREFUSED/],
  ['the name does not exist', 'http://nobody.invalid/', /ENOTFOUND|EAI_AGAIN/],
  ['there is no TLS', 'https', /SSL|TLS|packet|wrong version/i],
  ['the URL is invalid', 'nonsense', /cannot be parsed/],
])('if %s, the attempt fails with an error that says so', async (_what, url, error) => {
  const target = url === 'https' ? (await serve(response('400 Bad Request'))).replace('http:', 'https:') : url
  const outcome = await send(target)
  expect(outcome.error).toMatch(error)
  expect(outcome.status).toBeUndefined()
})

test('a body that drips does not delay the exchange', async () => {
  const url = await serve(socket => {
    socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
    drip(socket, '1\r\nx\r\n')
  })
  const began = performance.now()
  expect(await send(url)).toEqual({status: 200})
  expect(performance.now() - began).toBeLessThan(10_000) // of the 15 seconds for a response
})

test('no response, dripping headers and endless informational responses end within 15 seconds, with their connections', async () => {
  const ends: Promise<void>[] = []
  const hang = (behave: (socket: Socket) => void) =>
    serve(socket => {
      ends.push(closed(socket))
      behave(socket)
    })
  const urls = await Promise.all([
    hang(() => {}),
    hang(socket => socket.write('HTTP/1.1 200 OK\r\nx: ') && drip(socket, 'x')),
    hang(socket => drip(socket, 'HTTP/1.1 103 Early Hints\r\n\r\n')),
  ])
  const began = performance.now()
  for (const outcome of await Promise.all(urls.map(send))) expect(outcome).toEqual({error: 'no response within 15 s'})
  await Promise.all(ends)
  expect(performance.now() - began).toBeLessThan(17_000)
})
