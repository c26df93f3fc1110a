// A proxy before the node of a private network, which makes it look like the local chain: the service refuses a network
// that it does not know. It passes bytes on as they are, so that no amount loses a digit.
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'

/** `answer` may respond instead of the node. */
export async function disguise(
  node: string,
  answer: (body: string, path: string) => object | undefined,
): Promise<{url: string; close(): void}> {
  const base = node.replace(/\/+$/, '')
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request) chunks.push(chunk)
      const body = Buffer.concat(chunks).toString()
      const own = answer(body, request.url!)
      response.setHeader('content-type', 'application/json')
      if (own) return void response.end(JSON.stringify(own))
      const headers = {'content-type': 'application/json'}
      const passed = await fetch(base + request.url, {method: 'POST', headers, body})
      response.writeHead(passed.status).end(await passed.text())
    } catch {
      response.destroy() // as if the node had ended the connection
    }
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}
