// The part of the package ws (8.x) that the local chains use; it brings no types of its own.
declare module 'ws' {
  import type {EventEmitter} from 'node:events'
  import type {Server} from 'node:http'

  export class WebSocket extends EventEmitter<{message: [data: unknown]; close: []; error: [Error]}> {
    send(data: string): void
    terminate(): void
  }

  export class WebSocketServer extends EventEmitter<{connection: [WebSocket]; error: [Error]}> {
    constructor(options: {server: Server; maxPayload: number})
    readonly clients: Set<WebSocket>
  }
}
