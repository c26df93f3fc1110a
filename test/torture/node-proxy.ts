// A proxy in front of a local chain, for the worker. Until `calm` is called, its responses are sometimes late, cut off, or false. Most often it
// accepts a transaction without a response.
import {createServer, type IncomingMessage, type Server, type ServerResponse} from 'node:http'
import type {AddressInfo} from 'node:net'
import {setTimeout as sleep} from 'node:timers/promises'
import type {ChainCode} from '../../chains/registry.ts'
import type {GoBetween} from './go-between.ts'
import type {Random} from './random.ts'
import type {Service} from './service.ts'

const sending = {
  passes: 45,
  'accepted, late response': 13,
  'accepted, response lost': 20,
  'accepted, reported as refused': 9,
  'not accepted, response lost': 7,
  'not accepted, refused': 6,
}
const reading = {passes: 86, late: 5, 'response lost': 6, refused: 3}
type Mood = keyof typeof sending | keyof typeof reading

interface Node {
  chain: ChainCode
  /** The method that sends a transaction. */
  sending: string
}

export class NodeProxy implements GoBetween {
  readonly #node: Node
  readonly #service: Service
  readonly #random: Random
  readonly #server: Server
  #calm = false
  readonly counts: Record<string, number> = {}

  constructor(node: Node, service: Service, random: Random) {
    this.#node = node
    this.#service = service
    this.#random = random.fork(`node ${node.chain}`)
    this.#server = createServer((request, response) => void this.#take(request, response))
  }

  get what(): string {
    return `the node of ${this.#node.chain}, to the worker`
  }

  async open(): Promise<void> {
    await new Promise<void>(resolve => this.#server.listen(0, '127.0.0.1', resolve))
    const {port} = this.#server.address() as AddressInfo
    this.#service.useNode('jobs', `${this.#node.chain}_RPC_URL`, `http://127.0.0.1:${port}`)
  }

  calm(): void {
    this.#calm = true
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk)
      const body = Buffer.concat(chunks).toString()
      await this.#nodeResponse(body, this.#mood(body), response)
    } catch {
      response.destroy() // the chain is down, or the worker was killed
    }
  }

  #mood(body: string): Mood {
    if (this.#calm) return 'passes'
    const isSending = body.includes(`"${this.#node.sending}"`)
    const mood: Mood = this.#random.weighted<Mood>((isSending ? sending : reading) as Record<Mood, number>)
    this.counts[mood] = (this.counts[mood] ?? 0) + 1
    return mood
  }

  async #nodeResponse(body: string, mood: Mood, response: ServerResponse): Promise<void> {
    if (mood.startsWith('not taken') || mood === 'refused') {
      if (mood === 'not accepted, response lost') return void response.destroy()
      return void response.writeHead(503).end()
    }
    if (mood === 'late') await sleep(this.#random.between(500, 3000))
    const nodeResponse = await fetch(this.#service.controlUrl(this.#node.chain), {
      method: 'POST',
      headers: {'content-type': 'application/json'},
      body,
    })
    const text = await nodeResponse.text()
    if (mood === 'accepted, late response') await sleep(this.#random.between(500, 8000))
    if (mood.endsWith('response lost')) return void response.destroy()
    response.setHeader('content-type', 'application/json')
    response.end(mood === 'accepted, reported as refused' ? refusals(text) : text)
  }
}

/** The same number of responses, each an error. */
function refusals(text: string): string {
  const refused = ({id}: {id: number}) => ({
    jsonrpc: '2.0',
    id,
    error: {code: -32000, message: 'the transaction was rejected'},
  })
  const responses = JSON.parse(text)
  return JSON.stringify(Array.isArray(responses) ? responses.map(refused) : refused(responses))
}
