// How nodes are reached over HTTP: with the user and the password of their URL, which no error shows.
import {once} from 'node:events'
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {expect, test} from 'vitest'
import {SolanaNode} from './solana/client.ts'
import {TronNode} from './tron/client.ts'

const families: [string, (url: string) => Promise<unknown>][] = [
  ['SOL', url => new SolanaNode({url}, 2000).genesis()],
  ['TRON', url => new TronNode({url, solidityUrl: url}, undefined, 2000).solidHeader()],
]

test.each(families)('an error says why a node of %s does not answer', async (_, ask) => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const {port} = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  await expect(ask(`http://127.0.0.1:${port}`)).rejects.toThrow('ECONNREFUSED')
})

test.each(families)('the user and the password of the URL are sent to a node of %s', async (_, ask) => {
  const sent: unknown[] = []
  const server = createServer((request, response) => {
    sent.push(request.headers.authorization)
    response.writeHead(401).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const {port} = server.address() as AddressInfo
  const failed = ask(`http://sluice:p%40ss@127.0.0.1:${port}`)
  await expect(failed).rejects.toThrow(/401/)
  await expect(failed).rejects.not.toThrow(/p@ss|p%40ss/)
  expect(sent).toEqual([`Basic ${Buffer.from('sluice:p@ss').toString('base64')}`])
  server.close()
})
