// A merchant's webhook receiver: verifies every signature, and stores the bytes. Until `calm` is called, it sometimes
// fails in the ways of real receivers.
import {createServer, type IncomingMessage, type Server, type ServerResponse} from 'node:http'
import type {AddressInfo} from 'node:net'
import {Webhook} from 'standardwebhooks'
import type {Random} from './random.ts'

const hangMs = 20_000 // longer than the sender waits

export class Receiver {
  readonly #server: Server
  readonly #random: Random
  #calm = false
  secret = ''
  /** The bytes of each event by its id, as they first came. */
  readonly bodies = new Map<string, string>()
  /** Broken rules, in words. */
  readonly wrong: string[] = []
  readonly counts: Record<string, number> = {}

  constructor(random: Random) {
    this.#random = random.fork('receiver')
    this.#server = createServer((request, response) => void this.#take(request, response))
  }

  async listen(): Promise<string> {
    await new Promise<void>(resolve => this.#server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`
  }

  calm(): void {
    this.#calm = true
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const mood = this.#calm ? 'takes' : this.#random.weighted({takes: 90, refuses: 3, hangs: 1, resets: 3, forgets: 3})
    this.counts[mood] = (this.counts[mood] ?? 0) + 1
    if (mood === 'resets') return void request.socket.destroy()
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request) chunks.push(chunk)
    } catch {
      return // the sender was killed
    }
    if (mood === 'refuses') return void response.writeHead(503).end()
    if (mood === 'hangs') return void setTimeout(() => response.destroy(), hangMs).unref()
    this.#keep(Buffer.concat(chunks).toString(), request.headers as Record<string, string>)
    if (mood === 'forgets')
      request.socket.destroy() // it has the event, but the sender does not know that
    else response.writeHead(204).end()
  }

  #keep(body: string, headers: Record<string, string>): void {
    const id = headers['webhook-id']!
    try {
      new Webhook(this.secret).verify(body, headers)
    } catch (error) {
      this.wrong.push(`the signature of ${id} does not verify: ${error}`)
    }
    const before = this.bodies.get(id)
    if (before !== undefined && before !== body) this.wrong.push(`${id} came with other bytes: ${before} and ${body}`)
    this.bodies.set(id, before ?? body)
  }
}
