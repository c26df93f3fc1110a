// Servers that are too old, or too small.
import {expect, inject, test} from 'vitest'
import {PermanentError} from '../../base/errors.ts'
import {connectionsLacking, requireVersion, tooFewConnections} from './requirements.ts'

test('a server before PostgreSQL 18 is refused with its version', () => {
  const server = {number: 170006, version: '17.6 (Debian 17.6-1)', connections: 200}
  expect(() => requireVersion(server)).toThrow(PermanentError)
  expect(() => requireVersion(server)).toThrow(
    'the database server is PostgreSQL 17.6 (Debian 17.6-1), and Sluice needs version 18 or newer; nothing was changed',
  )
  for (const number of [180000, 180004, 190001]) requireVersion({...server, number})
})

test('a server that allows fewer connections than 200 gives a warning', async () => {
  const server = {number: 180004, version: '18.4', connections: 100}
  expect(tooFewConnections(server)).toMatch(/^the database server allows 100 connections, and Sluice is made for 200/)
  expect(tooFewConnections({...server, connections: 200})).toBeUndefined()
  expect(await connectionsLacking(inject('serverUrl'))).toBeUndefined()
})
