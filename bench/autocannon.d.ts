// The types of autocannon that the benches use; it has none.
declare module 'autocannon' {
  function autocannon(options: autocannon.Options): Promise<autocannon.Result>
  namespace autocannon {
    /** Called for each connection before its first request. */
    type SetupClient = (client: {setHeaders(headers: Record<string, string>): void}) => void
    interface Options {
      url: string
      setupClient: SetupClient
      connections: number
      /** Seconds. */
      duration: number
      /** What each connection sends, in turn; a GET by default. */
      requests?: Request[]
    }
    interface Request {
      method?: string
      body?: string
      setupRequest?: (request: Request) => Request
    }
    interface Result {
      requests: {total: number}
      duration: number
      non2xx: number
      errors: number
    }
  }
  export default autocannon
}
