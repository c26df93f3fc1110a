// Types for the parts of electrum-client that are used here; the package has none.
declare module 'electrum-client' {
  import type {EventEmitter} from 'node:events'
  import type {Socket} from 'node:net'

  type Responded = (error: unknown, result?: unknown) => void

  class ElectrumClient {
    constructor(port: number, host: string, protocol: 'tcp')
    /** The id of the newest call. */
    id: number
    conn: Socket
    /** 1 while there is a connection. */
    status: 0 | 1
    /** The callbacks by the id of the call. */
    readonly callback_message_queue: Record<number, Responded>
    /** Emits notifications: the method as the name, the parameters as the argument. */
    readonly subscribe: EventEmitter
    /** Passes a response to its call; ignores it if there is no such call. */
    response(message: {id: number; error?: unknown; result?: unknown}): void
    onRecv(chunk: string): void
    onMessage(line: string): void
    /** Passes an Error to every call that has no response. */
    onClose(): void
  }
  export = ElectrumClient
}
