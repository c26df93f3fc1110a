// The security page: second factors, sessions, the password. Promises: a second factor or the password is changed only
// by whoever has no second factor yet, or showed one within ten minutes (the database checks it); the last one cannot
// be removed; recovery codes are shown once; a changed password ends all other sessions.
import type {FastifyReply, FastifyRequest} from 'fastify'
import type {DatabaseError} from 'pg'
import {z} from 'zod'
import {
  type Context,
  Detour,
  go,
  hasAny,
  markBrowser,
  Refusal,
  read,
  renew,
  requireTrusted,
  show,
  text,
} from '../app.ts'
import * as pages from '../pages.ts'
import {passwordLength, type Who, whyWeak} from '../sign-in.ts'
import {newRecoveryCodes, newSecret, recoveryCodeHash, secretUri, stepOf} from '../totp.ts'

const freshMs = 600_000
const sealedMs = 1_800_000

const Id = z.object({id: z.uuid()})
const PasswordForm = z.object({present: text(passwordLength.max), password: text(passwordLength.max)})
const ConfirmForm = z.object({code: text(40), sealed: text(1000)})
const Sealed = z.object({secret: z.string(), userId: z.string(), until: z.number()})

/** What was done, by the word in the query. */
const done = new Map([
  ['password', 'Your password is changed, and all other browsers are signed out.'],
  ['session', 'That browser is signed out.'],
  ['sessions', 'All other browsers are signed out.'],
  ['passkey', 'The passkey is removed.'],
])

type Handler = (who: Who, request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>

export function securityRoutes(context: Context): void {
  const post = (path: string, handler: Handler) =>
    context.app.post(`/security${path}`, async (request, reply) =>
      handler(await requireTrusted(context, request, reply), request, reply),
    )
  context.app.get<{Querystring: {done?: string}}>('/security', async (request, reply) => {
    const who = await requireTrusted(context, request, reply)
    return await showSecurity(context, who, reply, {done: done.get(request.query.done ?? '')})
  })
  questions(context)
  authenticatorRoutes(context, post)
  passkeyAndSessionRoutes(context, post)
  post('/password', (...given) => changePassword(context, ...given))
}

/** Asked on pages of their own, before codes or a passkey are gone. */
function questions(context: Context): void {
  const ask = async (who: Who, reply: FastifyReply, title: string, body: Parameters<typeof show>[2]) =>
    show(reply, title, body, {person: await personOf(context.data, who)})
  context.app.get('/security/recovery-codes', async (request, reply) =>
    ask(await requireTrusted(context, request, reply), reply, 'Make new recovery codes', pages.askRecoveryCodes),
  )
  context.app.get('/security/passkeys/remove', async (request, reply) => {
    const who = await requireTrusted(context, request, reply)
    const {id} = read(Id, request.query)
    const passkey = (await context.data.passkeysOf(who.userId)).find(each => each.id === id)
    if (!passkey) throw new Refusal(404, 'There is nothing here', 'You have no such passkey.')
    return ask(who, reply, 'Remove a passkey', pages.askRemovePasskey(passkey))
  })
}

interface Outcome {
  status?: number
  error?: string
  done?: string
}

async function showSecurity(
  {data}: Context,
  who: Who,
  reply: FastifyReply,
  {status, ...outcome}: Outcome,
): Promise<FastifyReply> {
  const [factors, passkeys, sessions, person] = await Promise.all([
    data.factorsOf(who.userId),
    data.passkeysOf(who.userId),
    data.sessionsOf(who.userId),
    personOf(data, who),
  ])
  const shownAgo = Date.now() - (who.secondFactorAt?.getTime() ?? 0)
  const mayChange = !hasAny(factors) || shownAgo < freshMs
  const {sessionId: present, email} = who
  const body = pages.security({factors, mayChange, passkeys, sessions, present, email, ...outcome})
  return show(reply, 'Security', body, {status, person: hasAny(factors) ? person : undefined})
}

const personOf = async (data: Context['data'], {userId, email}: Who) => ({
  email,
  merchant: await data.merchantOf(userId),
})

/** What changes a second factor. Without one that was shown lately, the person shows it first. */
async function changing<T>(work: Promise<T>): Promise<T> {
  return await work.catch((error: DatabaseError) => {
    if (error.code === 'SLSTP') throw new Detour('/second-factor?next=%2Fsecurity&notice=not-done')
    if (error.code === 'SL422' || error.code === 'SL404') throw new Refusal(409, 'This was not changed', error.message)
    throw error
  })
}

function authenticatorRoutes(context: Context, post: (path: string, handler: Handler) => void): void {
  const {data, signIn} = context
  post('/authenticator', async (who, _request, reply) => {
    await changing(data.requireMayChangeFactors(who.token))
    return await showSetUp(context, who, reply, newSecret())
  })
  post('/authenticator/confirm', async (who, request, reply) => {
    const form = read(ConfirmForm, request.body)
    const secret = await unseal(context, who, form.sealed)
    const step = stepOf(secret, form.code.replaceAll(/\s/g, ''))
    if (step === undefined || !(await data.useCode(who.userId, step)))
      return await showSetUp(
        context,
        who,
        reply,
        secret,
        'This code is not right. Please type the one that is shown now.',
      )
    const codes = newRecoveryCodes()
    await changing(data.setAuthenticator(who.token, await signIn().encrypt(secret), codes.map(recoveryCodeHash)))
    await renew(context, reply, token => data.showSecondFactor(who.token, token))
    await data.record('authenticator.set_up', {userId: who.userId, ip: request.ip})
    return show(reply, 'Recovery codes', pages.recoveryCodes(codes))
  })
  post('/recovery-codes', async (who, request, reply) => {
    const codes = newRecoveryCodes()
    await changing(data.setRecoveryCodes(who.token, codes.map(recoveryCodeHash)))
    await data.record('recovery_codes.make', {userId: who.userId, ip: request.ip})
    return show(reply, 'Recovery codes', pages.recoveryCodes(codes))
  })
}

/**
 * The secret is stored only once a code of it was shown: until then the form carries it, sealed for this person and
 * half an hour.
 */
async function showSetUp(
  {signIn}: Context,
  who: Who,
  reply: FastifyReply,
  secret: string,
  error?: string,
): Promise<FastifyReply> {
  const sealed = await signIn().encrypt(JSON.stringify({secret, userId: who.userId, until: Date.now() + sealedMs}))
  const body = pages.setUp({secret, uri: secretUri(secret, who.email), sealed, error})
  return show(reply, 'Set up an authenticator', body, {status: error ? 422 : 200})
}

async function unseal({signIn}: Context, who: Who, sealed: string): Promise<string> {
  const opened = await signIn()
    .decrypt(sealed)
    .then(JSON.parse)
    .catch(() => undefined)
  const {data} = Sealed.safeParse(opened)
  if (data?.userId !== who.userId || data.until < Date.now())
    throw new Refusal(410, 'This form is too old', 'Please begin again on the page Security.')
  return data.secret
}

function passkeyAndSessionRoutes({data}: Context, post: (path: string, handler: Handler) => void): void {
  post('/passkeys/remove', async (who, request, reply) => {
    const {id} = read(Id, request.body)
    await changing(data.removePasskey(who.token, id))
    await data.record('passkey.remove', {userId: who.userId, ip: request.ip, target: id})
    return go(reply, '/security?done=passkey')
  })
  post('/sessions/end', async (who, request, reply) => {
    const {id} = read(Id, request.body)
    if (await data.endSession(who.userId, id))
      await data.record('session.end', {userId: who.userId, ip: request.ip, target: id})
    return go(reply, '/security?done=session')
  })
  post('/sessions/end-others', async (who, request, reply) => {
    await data.endOtherSessions(who.userId, who.sessionId)
    await data.record('session.end', {userId: who.userId, ip: request.ip, target: 'all others'})
    return go(reply, '/security?done=sessions')
  })
}

async function changePassword(
  context: Context,
  who: Who,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const {data, signIn} = context
  const {present, password} = read(PasswordForm, request.body)
  await changing(data.requireMayChangeFactors(who.token))
  const weak = whyWeak(password, who.email)
  if (weak) return await showSecurity(context, who, reply, {status: 422, error: weak})
  const attempt = await data.beginAttempt(`present password ${who.userId}`)
  if (attempt === undefined)
    return await showSecurity(context, who, reply, {
      status: 429,
      error: 'There were too many wrong passwords. Please wait 15 minutes and try again.',
    })
  if (!(await signIn().verify(await data.passwordOf(who.userId), present))) {
    await data.record('password.change', {userId: who.userId, ip: request.ip, outcome: 'wrong_password'})
    return await showSecurity(context, who, reply, {status: 401, error: 'The present password is not right.'})
  }
  await data.forgetAttempt(attempt)
  const hash = await signIn().hash(password)
  await changing(renew(context, reply, token => data.changePassword(who.token, token, hash)))
  await markBrowser(context, reply, who.email)
  await data.record('password.change', {userId: who.userId, ip: request.ip})
  return go(reply, '/security?done=password')
}
