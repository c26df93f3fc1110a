// A node of the model's chain, as far as the worker's part of a family asks one: JSON-RPC by HTTP. Promises: it answers
// at once, from what the chain of the history holds; it decides nothing.
import {once} from 'node:events'
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {text} from 'node:stream/consumers'
import type {ModelChain} from '../chain.ts'

export type Methods = Record<string, (chain: ModelChain, ...params: unknown[]) => unknown>

interface Call {
  id: number
  method: string
  params: unknown[]
}

export class ModelNode {
  readonly address: string
  /** Of the history that runs. */
  chain: ModelChain | undefined

  private constructor(port: number) {
    this.address = `127.0.0.1:${port}`
  }

  static async open(methods: Methods): Promise<ModelNode> {
    const answer = ({id, method, params}: Call) => ({
      jsonrpc: '2.0',
      id,
      result: methods[method]!(node.chain!, ...params),
    })
    const server = createServer(async (request, response) => {
      const asked = JSON.parse(await text(request)) as Call | Call[]
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(Array.isArray(asked) ? asked.map(answer) : answer(asked)))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    server.unref()
    const node = new ModelNode((server.address() as AddressInfo).port)
    return node
  }
}
