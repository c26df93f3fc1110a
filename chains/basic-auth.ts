// The user and password of a node's URL (RFC 3986). They go into a header (RFC 7617), because fetch refuses URLs that
// have them.

export function basicAuth({username, password}: Pick<URL, 'username' | 'password'>): string {
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return `Basic ${Buffer.from(pair).toString('base64')}`
}

export function withoutPassword(url: string): {url: string; headers: {authorization?: string}} {
  const parsed = new URL(url)
  if (!parsed.username && !parsed.password) return {url, headers: {}}
  const headers = {authorization: basicAuth(parsed)}
  parsed.username = ''
  parsed.password = ''
  return {url: parsed.href, headers}
}
