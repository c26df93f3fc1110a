// Passkeys, for dashboard/static/passkeys.js: the four paths of better-auth that are open to browsers, as JSON.
// Promises: no other path of it can be reached; a passkey is added only by whoever may change second factors, and signs
// in only if the device verified the person; what it signs in is a new session, and the one before it ends.
import type {FastifyReply, FastifyRequest} from 'fastify'
import type {DatabaseError} from 'pg'
import {z} from 'zod'
import {type Context, giveCookies, markBrowser, read, renew, requireTrusted, text} from '../app.ts'

/** What a browser's authenticator returned. better-auth reads it; the database must be able to store its texts. */
const Credential = z
  .record(z.string(), z.unknown())
  .refine(value => !/\\u0000|\\ud[89a-f]/i.test(JSON.stringify(value)), 'It cannot be stored.')
const Registration = z.object({response: Credential, name: text(100).default('')})
const Authentication = z.object({response: Credential})
const SignedIn = z.object({session: z.object({token: z.string()}), user: z.object({id: z.string(), email: z.string()})})

export function passkeyRoutes(context: Context): void {
  const {app, data, signIn} = context
  app.get('/auth/passkey/generate-register-options', async (request, reply) => {
    await requireMayAdd(context, request, reply)
    return await pass(reply, await signIn().ask(request, '/passkey/generate-register-options'))
  })
  app.post('/auth/passkey/verify-registration', async (request, reply) => {
    const who = await requireMayAdd(context, request, reply)
    const {response, name} = read(Registration, request.body)
    const answer = await signIn().ask(request, '/passkey/verify-registration', {
      response,
      name: name.trim() || 'Passkey',
    })
    await data.record('passkey.add', {userId: who.userId, ip: request.ip, outcome: answer.ok ? 'done' : 'refused'})
    if (!answer.ok) return await pass(reply, answer)
    await renew(context, reply, token => data.showSecondFactor(who.token, token)) // the device has just verified the person
    return await pass(reply, answer, {ok: true})
  })
  app.get('/auth/passkey/generate-authenticate-options', async (request, reply) => {
    const answer = await signIn().ask(request, '/passkey/generate-authenticate-options')
    const options = answer.ok ? {...((await answer.json()) as object), userVerification: 'required'} : undefined
    return await pass(reply, answer, options)
  })
  app.post('/auth/passkey/verify-authentication', async (request, reply) => {
    const {response} = read(Authentication, request.body)
    const before = await signIn().whoIs(request)
    const answer = await signIn().ask(request, '/passkey/verify-authentication', {response})
    if (!answer.ok) {
      if (answer.status !== 429)
        await data.record('sign_in.passkey', {userId: before?.userId, ip: request.ip, outcome: 'refused'})
      return await pass(reply, answer)
    }
    const {session, user} = SignedIn.parse(await answer.json())
    await data.showSecondFactor(session.token, session.token) // it is new: nobody else knows its token
    if (before) await data.endSession(before.userId, before.sessionId)
    await data.record('sign_in.passkey', {userId: user.id, ip: request.ip})
    await markBrowser(context, reply, user.email)
    return await pass(reply, answer, {ok: true})
  })
}

/** Throws SLSTP, for which the error handler tells the script where to go. */
async function requireMayAdd(context: Context, request: FastifyRequest, reply: FastifyReply) {
  const who = await requireTrusted(context, request, reply)
  await context.data.requireMayChangeFactors(who.token).catch((error: DatabaseError) => {
    throw error.code === 'SLSTP' ? Object.assign(error, {statusCode: 403}) : error
  })
  return who
}

/** Passes on what better-auth answered; or another body, because the browser needs no token in one. */
async function pass(reply: FastifyReply, answer: Response, body?: object): Promise<FastifyReply> {
  giveCookies(reply, answer.headers.getSetCookie())
  reply.code(answer.status).type('application/json; charset=utf-8')
  return reply.send(body ? JSON.stringify(body) : await answer.text())
}
