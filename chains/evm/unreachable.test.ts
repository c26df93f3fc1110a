// Connections that are refused, and those that are not.
import {type AddressInfo, createServer} from 'node:net'
import {expect, test} from 'vitest'
import {Questions, whyUnreachable} from './client.ts'

test('a refused connection is named as such; one that can be made is not', async () => {
  const server = createServer(socket => socket.destroy())
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const {port} = server.address() as AddressInfo
  expect(await whyUnreachable(`http://127.0.0.1:${port}/key`)).toBeUndefined()
  await new Promise(resolve => server.close(resolve))
  const refused = `the connection is refused: connect ECONNREFUSED 127.0.0.1:${port}`
  expect(await whyUnreachable(`wss://127.0.0.1:${port}/key`)).toBe(refused)
  const questions = new Questions(`ws://127.0.0.1:${port}/key`, 500)
  await expect(questions.ask([{method: 'eth_chainId', params: []}])).rejects.toThrow(
    `the node cannot be asked: ${refused}`,
  )
  questions.close()
})
