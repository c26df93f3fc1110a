// Asks a URL whether a process is well: node service/healthcheck.ts URL. Exit code 0 when it answers with a status of 200 to 299 within five
// seconds, else 1, with the reason on stderr. For containers, whose image need not hold a program like curl for it.
const timeoutMs = 5000

async function main(url: string): Promise<void> {
  const response = await fetch(url, {signal: AbortSignal.timeout(timeoutMs)})
  if (!response.ok) throw new Error(`it answers with ${response.status}: ${(await response.text()).slice(0, 500)}`)
}

const url = process.argv[2] ?? ''
main(url).catch((error: Error) => {
  const why = error.cause instanceof Error ? error.cause.message : error.message
  console.error(`healthcheck: ${url || 'no URL is given'}: ${why}`)
  process.exitCode = 1
})
