// What the benches use of autocannon, which brings no types.
declare module 'autocannon' {
  export default function autocannon(options: {
    url: string
    headers: Record<string, string>
    connections: number
    /** Seconds. */
    duration: number
  }): Promise<{requests: {total: number}; duration: number; non2xx: number; errors: number}>
}
