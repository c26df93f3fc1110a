// A node of the model's chain, as far as the worker's part of a family asks one, by HTTP. Promises: it answers at once,
// from what the chain of the history holds; it decides nothing.
import {once} from 'node:events'
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {text} from 'node:stream/consumers'
import type {Settings} from '../../../chains/settings.ts'
import type {PayoutChain} from '../../../jobs/payouts/context.ts'
import type {ModelChain} from '../chain.ts'
import type {Kind} from './kind.ts'

/** What it answers to a request's path (without the first slash) and body. */
export type Answer = (chain: ModelChain, path: string, body: unknown) => unknown

interface Call {
  id: number
  method: string
  params: unknown[]
}

/** A node of JSON-RPC. */
export function jsonRpc(methods: Record<string, (chain: ModelChain, ...params: unknown[]) => unknown>): Answer {
  const answerTo = (chain: ModelChain, {id, method, params}: Call) => ({
    jsonrpc: '2.0',
    id,
    result: methods[method]!(chain, ...params),
  })
  return (chain, _path, body) => {
    const asked = body as Call | Call[]
    return Array.isArray(asked) ? asked.map(call => answerTo(chain, call)) : answerTo(chain, asked)
  }
}

export class ModelNode {
  readonly address: string
  /** Of the history that runs. */
  chain: ModelChain | undefined

  private constructor(port: number) {
    this.address = `127.0.0.1:${port}`
  }

  static async open(answer: Answer): Promise<ModelNode> {
    const server = createServer(async (request, response) => {
      const body: unknown = JSON.parse(await text(request))
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(answer(node.chain!, request.url!.slice(1), body)))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    server.unref()
    const node = new ModelNode((server.address() as AddressInfo).port)
    return node
  }

  /** The part of the worker that asks this node: opened once, whatever the history. */
  worker(open: (settings: Settings) => PayoutChain): Kind['worker'] {
    let opened: PayoutChain | undefined
    return (settings, chain) => {
      this.chain = chain
      opened ??= open(settings)
      return opened
    }
  }
}
