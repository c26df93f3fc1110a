// Addresses that webhooks must never reach, tried against a real local server with the sender that delivers webhooks.
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {afterAll, beforeAll, expect, test} from 'vitest'
import {isPublicAddress} from '../../base/public-address.ts'
import {refusalOf} from './address.ts'
import {openSender} from './send.ts'

let port: number
let requests = 0
const server = createServer((_request, response) => {
  requests++
  response.end()
})
beforeAll(async () => {
  await new Promise<void>(resolve => server.listen(0, '::', resolve))
  port = (server.address() as AddressInfo).port
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const message = (host: string) => ({url: `http://${host}:${port}/`, id: 'evt_1', body: '{}', secrets: ['whsec_AAAA']})

test.each([
  '127.0.0.1',
  'localhost',
  'LOCALHOST',
  '127.1',
  '2130706433',
  '0x7f000001',
  '0x7f.1',
  '0177.0.0.1',
  '127.0.0.1.',
  '%31%32%37.0.0.1',
  '１２７.0.0.1',
  '0.0.0.0',
  '[::1]',
  '[::]',
  '[0:0:0:0:0:0:0:1]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::127.0.0.1]',
  '[::ffff:0:127.0.0.1]',
  '[64:ff9b::127.0.0.1]',
  '[2002:7f00:1::]',
])('a webhook to %s is refused before there is a connection', async host => {
  const sender = openSender({allowPrivate: false})
  const before = requests
  expect(await sender.send(message(host))).toEqual({error: 'refused: the URL leads to a private address'})
  expect(requests).toBe(before)
  await sender.close()
})

test.each(['127.0.0.1', 'localhost', '[::1]'])('with WEBHOOK_ALLOW_PRIVATE a webhook to %s arrives', async host => {
  const sender = openSender({allowPrivate: true})
  expect(await sender.send(message(host))).toEqual({status: 200})
  await sender.close()
})

test('every private, local, reserved or translated range counts as private', () => {
  const refused = `0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.255.255.255 169.254.169.254 172.16.0.1 172.31.255.255
    192.0.0.1 192.0.2.1 192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255
    :: ::1 ::7f00:1 ::ffff:10.0.0.1 ::ffff:0:10.0.0.1 64:ff9b::a00:1 64:ff9b:1::a00:1 100::1 2001::1 2001:db8::1 2002:a00:1::1
    3fff::1 5f00::1 fc00::1 fd12:3456::1 fe80::1 fe80::1%eth0 fec0::1 ff02::1 4000::1 nonsense 127.1 0x7f.1`
  for (const address of refused.split(/\s+/)) expect([address, isPublicAddress(address)]).toEqual([address, false])
  for (const address of [
    '1.1.1.1',
    '93.184.216.34',
    '172.32.0.1',
    '2606:4700::1111',
    '2a00:1450:4001::1',
    '::ffff:8.8.8.8',
  ])
    expect([address, isPublicAddress(address)]).toEqual([address, true])
})

test('a host name is refused when any of its addresses is private', () => {
  const inside = {address: '10.0.0.1', family: 4}
  const outside = {address: '93.184.216.34', family: 4}
  expect(refusalOf([outside])).toBeUndefined()
  expect(refusalOf([outside, inside])?.message).toMatch(/^refused/)
  expect(refusalOf([inside])?.message).toMatch(/^refused/)
})
