// The parts of electrum-client that are used here, which has no types of its own.
declare module 'electrum-client' {
  import type {EventEmitter} from 'node:events'
  import type {Socket} from 'node:net'

  type Responded = (error: unknown, result?: unknown) => void

  class ElectrumClient {
    constructor(port: number, host: string, protocol: 'tcp')
    /** Of the newest call. */
    id: number
    conn: Socket
    /** 1 while there is a connection. */
    status: 0 | 1
    /** By the id of the call. */
    readonly callback_message_queue: Record<number, Responded>
    /** Emits notifications: the method as the name, the parameters as the argument. */
    readonly subscribe: EventEmitter
    /** Hands an answer to the call that it is of; without one, it is ignored. */
    response(message: {id: number; error?: unknown; result?: unknown}): void
    onRecv(chunk: string): void
    onMessage(line: string): void
    /** Hands an Error to every call that has no answer. */
    onClose(): void
  }
  export = ElectrumClient
}
