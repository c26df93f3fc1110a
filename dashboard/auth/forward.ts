// Everything that is no page of this process goes to the pages process, over its unix socket. Promises: of a request it
// gets the method, the path, the body and a few headers, and the token of a session in which a second factor was shown;
// never a cookie or an address. Of its response the browser gets the status, the body and a few headers; so no page can
// set a cookie, or weaken a security header. Bodies stream both ways. When the browser goes, the forwarded request
// ends.
import {request as ask, type IncomingMessage} from 'node:http'
import type {Readable} from 'node:stream'
import type {FastifyReply, FastifyRequest} from 'fastify'
import {type Context, Detour, giveCookies, hasAny, Refusal} from './app.ts'

const there = ['content-type', 'content-length', 'accept', 'hx-request'] as const
const back = [
  'content-type',
  'content-length',
  'content-disposition',
  'location',
  'cache-control',
  'retry-after',
] as const
const timeoutMs = 30_000
const bodyLimit = 64 * 1024
/** Of the one form with a file. */
const uploads: Record<string, number> = {'/settings/payment-page': 768 * 1024}

export function forward(context: Context, socket: string): void {
  context.app.register(async app => {
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*', (_request, payload, done) => done(null, payload)) // the body is not read here
    const url = '/*'
    app.route({
      method: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
      url,
      exposeHeadRoute: false,
      handler: async (request, reply) => {
        requireShort(request)
        const token = await tokenOf(context, request, reply)
        const response = await send(request, reply, {socket, token})
        reply.code(response.statusCode ?? 502)
        for (const name of back) if (response.headers[name]) reply.header(name, response.headers[name])
        return reply.send(response)
      },
    })
  })
}

/** Of a body without a length it would be known too late that it is too long. */
function requireShort({headers, url}: FastifyRequest): void {
  if (headers['transfer-encoding'])
    throw new Refusal(
      411,
      'This was refused',
      'The length of what was sent is not known. Browsers say it; if you are the operator, let the proxy pass it on.',
    )
  const upload = uploads[url]
  const length = Number(headers['content-length'] ?? 0)
  if (upload !== undefined && length > upload)
    throw new Refusal(
      413,
      'The file is too large',
      'The logo must have at most 512 KiB. Please go back and choose a smaller one.',
    )
  if (upload === undefined && length > bodyLimit)
    throw new Refusal(413, 'This is too long', 'What you sent is too long. Please go back and shorten it.')
}

/** Of a session that may see pages; others go where they can make it one. */
async function tokenOf({signIn, data}: Context, request: FastifyRequest, reply: FastifyReply): Promise<string> {
  const who = await signIn().whoIs(request)
  const isPage = request.method === 'GET' && !request.headers['hx-request'] && request.headers.accept?.includes('html')
  const query = isPage && request.url !== '/' ? `?${new URLSearchParams({next: request.url})}` : ''
  if (!who) throw new Detour(`/sign-in${query}`)
  if (!who.secondFactorAt)
    throw new Detour(hasAny(await data.factorsOf(who.userId)) ? `/second-factor${query}` : '/security')
  giveCookies(reply, who.cookies)
  return who.token
}

function send(
  request: FastifyRequest,
  reply: FastifyReply,
  {socket, token}: {socket: string; token: string},
): Promise<IncomingMessage> {
  const {method, url, body} = request
  const headers = Object.fromEntries(
    there.flatMap(name => (request.headers[name] ? [[name, request.headers[name]]] : [])),
  )
  return new Promise((resolve, reject) => {
    const forwarded = ask({
      socketPath: socket,
      method,
      path: url,
      headers: {...headers, 'sluice-session': token},
      agent: false,
      timeout: timeoutMs,
    })
    reply.raw.once('close', () => forwarded.destroy())
    forwarded.once('timeout', () => forwarded.destroy(new Error('the pages did not respond in time')))
    forwarded.once('error', (error: NodeJS.ErrnoException) => {
      const isDown = ['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EACCES'].includes(error.code ?? '')
      reject(
        isDown ? new Refusal(503, 'Please wait', 'The pages are being started. Please try again in a moment.') : error,
      )
    })
    forwarded.once('response', response => {
      forwarded.setTimeout(0) // live parts stay open
      resolve(response)
    })
    if (body) (body as Readable).pipe(forwarded)
    else forwarded.end()
  })
}
