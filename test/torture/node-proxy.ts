// A proxy in front of a local chain, for the worker, or for its indexer. Until `calm` is called, its responses are
// sometimes late, cut off, or false. Most often it accepts a transaction without a response.
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
/** An indexer needs many responses for each step. */
const following = {passes: 97, late: 1, 'response lost': 1, refused: 1}
type Mood = keyof typeof sending | keyof typeof reading

interface Node {
  chain: ChainCode
  /** The method that sends a transaction, or the end of the path. */
  sending: string
  /** Who asks it, and by which setting; absent: the worker, by its only one. */
  asker?: {processes: 'jobs' | 'indexers'; setting: string}
}

interface Asked {
  path: string
  body: string
}

export class NodeProxy implements GoBetween {
  readonly #node: Required<Node>
  readonly #service: Service
  readonly #random: Random
  readonly #server: Server
  #calm = false
  readonly counts: Record<string, number> = {}

  constructor(node: Node, service: Service, random: Random) {
    const {asker = {processes: 'jobs', setting: 'RPC_URL'}} = node
    this.#node = {...node, asker}
    this.#service = service
    this.#random = random.fork(`node ${node.chain} ${asker.setting}`)
    this.#server = createServer((request, response) => void this.#take(request, response))
  }

  get what(): string {
    const {chain, asker} = this.#node
    return `the node of ${chain}, to the ${asker.processes === 'jobs' ? 'worker' : 'indexer'}`
  }

  async open(): Promise<void> {
    await new Promise<void>(resolve => this.#server.listen(0, '127.0.0.1', resolve))
    const {port} = this.#server.address() as AddressInfo
    const {chain, asker} = this.#node
    this.#service.useNode(asker.processes, `${chain}_${asker.setting}`, `http://127.0.0.1:${port}`)
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
      const asked = {path: request.url ?? '/', body}
      await this.#nodeResponse(asked, this.#mood(asked), response)
    } catch {
      response.destroy() // the chain is down, or the worker was killed
    }
  }

  #mood({path, body}: Asked): Mood {
    if (this.#calm) return 'passes'
    const {sending: method, asker} = this.#node
    const isSending = path.endsWith(method) || body.includes(`"${method}"`)
    const moods = isSending ? sending : asker.processes === 'indexers' ? following : reading
    const mood: Mood = this.#random.weighted<Mood>(moods as Record<Mood, number>)
    this.counts[mood] = (this.counts[mood] ?? 0) + 1
    return mood
  }

  async #nodeResponse({path, body}: Asked, mood: Mood, response: ServerResponse): Promise<void> {
    if (mood.startsWith('not accepted') || mood === 'refused') {
      if (mood === 'not accepted, response lost') return void response.destroy()
      return void response.writeHead(503).end()
    }
    if (mood === 'late') await sleep(this.#random.between(500, 3000))
    const nodeResponse = await fetch(new URL(path, this.#service.controlUrl(this.#node.chain)), {
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

/** The same number of responses, each an error; of an API of paths, its refusal. */
function refusals(text: string): string {
  const refused = ({id}: {id: number}) => ({
    jsonrpc: '2.0',
    id,
    error: {code: -32000, message: 'the transaction was rejected'},
  })
  const responses = JSON.parse(text)
  if (responses.txid) return JSON.stringify({...responses, result: false, code: 'SERVER_BUSY', message: 'not now'})
  return JSON.stringify(Array.isArray(responses) ? responses.map(refused) : refused(responses))
}
