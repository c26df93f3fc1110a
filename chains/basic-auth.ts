// The user and password of a node's URL (RFC 3986). They go into a header (RFC 7617), because fetch refuses URLs that have them.

export function withoutPassword(url: string): {url: string; headers: {authorization?: string}} {
  const parsed = new URL(url)
  const {username, password} = parsed
  if (!username && !password) return {url, headers: {}}
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  parsed.username = ''
  parsed.password = ''
  return {url: parsed.href, headers: {authorization: `Basic ${Buffer.from(pair).toString('base64')}`}}
}
