// Direct requests over a websocket whose connection is not made.
import {createServer as createHttp} from 'node:http'
import {type AddressInfo, createServer, type Socket} from 'node:net'
import {expect, test} from 'vitest'
import {WebSocketServer} from 'ws'
import {Node} from './node.ts'

const failed = (asked: Promise<unknown>) =>
  asked.then(
    () => false,
    () => true,
  )

function answering() {
  const http = createHttp()
  const asked: string[] = []
  const sockets = new WebSocketServer({server: http})
  sockets.on('connection', socket =>
    socket.on('message', data => {
      const {id, method} = JSON.parse(String(data))
      asked.push(method)
      socket.send(JSON.stringify({jsonrpc: '2.0', id, result: '0x1'}))
    }),
  )
  return {http, asked, sockets}
}

test('a handshake that is never answered does not keep the next request from another connection', async () => {
  const {http, sockets} = answering()
  const held: Socket[] = []
  let isUp = false
  const server = createServer(socket => {
    if (isUp) http.emit('connection', socket)
    else held.push(socket)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const node = new Node(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`, 'ETH')
  expect(await failed(node.chainId())).toBe(true)
  isUp = true
  try {
    expect(await node.chainId()).toBe(1)
  } finally {
    node.close()
    for (const socket of held) socket.destroy()
    for (const client of sockets.clients) client.terminate()
    server.close()
  }
}, 60_000)

test('requests that were given up are not sent when the node is back', async () => {
  const probe = createServer()
  await new Promise<void>(resolve => probe.listen(0, '127.0.0.1', resolve))
  const {port} = probe.address() as AddressInfo
  await new Promise(resolve => probe.close(resolve))
  const node = new Node(`ws://127.0.0.1:${port}`, 'ETH')
  expect(await Promise.all(Array.from({length: 20}, () => failed(node.chainId())))).not.toContain(false)
  const {http, asked, sockets} = answering()
  await new Promise<void>(resolve => http.listen(port, '127.0.0.1', resolve))
  for (let i = 0; i < 4 && (await failed(node.chainId())); i++);
  console.log('asked after it was back:', asked.length)
  node.close()
  for (const client of sockets.clients) client.terminate()
  http.close()
  expect(asked.length).toBeLessThan(5)
}, 90_000)
