// Custody's socket: HTTP on a unix socket in $SLUICE_HOME/run, for processes that can read the token beside it.
// Promises: only the owner of the directory can use socket and token, and its group if the directory's mode lets the
// group in. Each start makes a new token. A request without the token is refused before its body is read. A request
// with an unknown intent is refused as a whole.
import {randomBytes, timingSafeEqual} from 'node:crypto'
import {chmodSync, mkdirSync, rmSync, statSync} from 'node:fs'
import path from 'node:path'
import Fastify, {type FastifyError, type FastifyReply, type FastifyRequest} from 'fastify'
import type {z} from 'zod'
import {PermanentError} from '../base/errors.ts'
import {custodySocket, writeWhole} from '../base/home.ts'
import type {Logger} from '../base/log.ts'
import {failureOf, inWords} from '../db/client/failure.ts'
import type {Custody} from './custody.ts'
import {rejected} from './metrics.ts'
import {AuthoriseRequest, CheckRequest, SignRequest} from './requests.ts'

const bodyLimit = 512 * 1024
/** Operating systems allow 103 to 107 bytes. */
const longestSocketPath = 103

class InvalidRequest extends Error {
  readonly details: {path: string; message: string}[]

  constructor({issues}: z.ZodError) {
    super('the request has no form that custody knows')
    this.details = issues.map(({path, message}) => ({path: path.join('.'), message}))
  }
}

/** Opens the socket of a custody that holds the lock. Resolves to what closes it. */
export async function openSocket(home: string, custody: Custody, log: Logger): Promise<() => Promise<void>> {
  const {socket, tokenFile} = custodySocket(home)
  if (Buffer.byteLength(socket) > longestSocketPath)
    throw new PermanentError(
      `${socket} is too long for a unix socket (${longestSocketPath} bytes); set SLUICE_HOME to a shorter path`,
    )
  const directory = path.dirname(socket)
  mkdirSync(directory, {recursive: true, mode: 0o700})
  const allowed = statSync(directory).mode & 0o750
  chmodSync(directory, allowed)
  const token = randomBytes(32).toString('base64url')
  const server = buildServer(custody, token, log)
  rmSync(socket, {force: true}) // left by a killed process: only the holder of the lock gets here
  await server.listen({path: socket})
  chmodSync(socket, allowed & 0o050 ? 0o660 : 0o600)
  writeWhole(tokenFile, token, allowed & 0o050 ? 0o640 : 0o600)
  return () => server.close()
}

function buildServer(custody: Custody, token: string, log: Logger) {
  const server = Fastify({bodyLimit, requestTimeout: 30_000, forceCloseConnections: true})
  const expected = Buffer.from(`Bearer ${token}`)
  server.addHook('onRequest', async (request, reply) => {
    const given = Buffer.from(request.headers.authorization ?? '')
    if (given.length === expected.length && timingSafeEqual(given, expected)) return
    rejected.inc({reason: 'no_token'})
    log.warn({method: request.method}, 'a request without the token was refused')
    await reply
      .code(401)
      .send({error: 'unauthorized', message: 'send the token in the token file of custody as a Bearer token'})
  })
  server.setNotFoundHandler((_request, reply) =>
    reply
      .code(404)
      .send({error: 'route_not_found', message: 'custody knows POST /sign, POST /authorise and POST /check'}),
  )
  server.setErrorHandler(sendError)
  server.post('/sign', async request => ({results: await custody.sign(parse(SignRequest, request.body).intents)}))
  server.post('/authorise', async request => ({
    results: await custody.authorise(parse(AuthoriseRequest, request.body).sweeps),
  }))
  server.post('/check', async request => await custody.check(parse(CheckRequest, request.body).payout_id))
  return server

  function sendError(error: FastifyError | InvalidRequest, _request: FastifyRequest, reply: FastifyReply) {
    const {message} = error
    if (error instanceof InvalidRequest) {
      rejected.inc({reason: 'unknown_form'})
      log.warn({details: error.details}, 'an invalid request was refused')
      return reply.code(400).send({error: 'invalid_request', message, details: error.details})
    }
    const status = error.statusCode ?? 500
    if (status < 500) return reply.code(status).send({error: 'invalid_request', message, details: []})
    log.error({error: inWords(error), stack: error.stack}, 'a request failed')
    return reply.code(500).send({
      error: 'internal_error',
      message: `nothing was signed for this request; ${failureOf(error)?.message ?? 'the log of custody says why'}`,
    })
  }
}

function parse<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  const result = schema.safeParse(body)
  if (!result.success) throw new InvalidRequest(result.error)
  return result.data
}
