// Styles and scripts. Promises: each is read once, at the start; a browser that has the present version gets no body.
import {createHash} from 'node:crypto'
import {readdirSync, readFileSync} from 'node:fs'
import {gzipSync} from 'node:zlib'
import type {FastifyInstance} from 'fastify'

const types: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
}
const root = new URL('../../', import.meta.url)
const own = new URL('dashboard/static/', root)

const files: [name: string, file: URL][] = [
  ...readdirSync(own).map((name): [string, URL] => [name, new URL(name, own)]),
  ['tokens.css', new URL('base/design-tokens.css', root)],
  ['htmx.js', new URL('node_modules/htmx.org/dist/htmx.min.js', root)],
]

export function serveStatic(app: FastifyInstance): void {
  for (const [name, file] of files) {
    const plain = readFileSync(file)
    const zipped = gzipSync(plain, {level: 9})
    const etag = `"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`
    const type = types[name.split('.').at(-1)!]
    if (!type) continue
    app.get(`/static/${name}`, async (request, reply) => {
      reply.headers({'cache-control': 'public, max-age=3600', etag, vary: 'accept-encoding'})
      if (request.headers['if-none-match']?.includes(etag)) return reply.code(304).send()
      reply.type(type)
      const takesGzip = /\bgzip\b/.test(request.headers['accept-encoding']?.toString() ?? '')
      return takesGzip ? reply.header('content-encoding', 'gzip').send(zipped) : reply.send(plain)
    })
  }
}
