// Signing in: e-mail and password, then a second factor; or a passkey alone. Promises: an unknown e-mail address and a
// wrong password give the same message in the same time; after ten wrong passwords for an address, or codes of a
// person, within 15 minutes, no further one is looked at; browsers in which that person signed in before are counted
// apart, each by itself; each sign-in begins a new session, and the one before it ends.
import type {FastifyReply, FastifyRequest} from 'fastify'
import {z} from 'zod'
import {
  type Context,
  Detour,
  giveCookies,
  go,
  hasAny,
  knownBrowser,
  markBrowser,
  next,
  read,
  renew,
  requireWho,
  show,
  text,
} from '../app.ts'
import * as pages from '../pages.ts'
import {passwordLength} from '../sign-in.ts'
import {recoveryCodeHash, stepOf} from '../totp.ts'

const tooMany = 'There were too many wrong ones. Please wait 15 minutes and try again.'
const tooManyHere = 'There were too many attempts from your network. Please wait a minute.'

const SignInForm = z.object({email: text(pages.emailLength), password: text(passwordLength.max), next})
const CodeForm = z.object({code: text(40), next, notice: z.string().optional()})
const Answer = z.object({user: z.object({id: z.string()})})

export function signInRoutes(context: Context): void {
  const {app} = context
  app.get<{Querystring: {next?: unknown}}>('/sign-in', async (request, reply) =>
    show(reply, 'Sign in', pages.signIn({next: next.parse(request.query.next)})),
  )
  app.post('/sign-in', async (request, reply) => await signIn(context, request, reply))
  app.post('/sign-out', async (request, reply) => {
    const who = await context.signIn().whoIs(request)
    const answer = await context.signIn().ask(request, '/sign-out', {})
    if (who) await context.data.record('sign_out', {userId: who.userId, ip: request.ip})
    giveCookies(reply, answer.headers.getSetCookie())
    return go(reply, '/sign-in')
  })
  app.get<{Querystring: {next?: unknown; notice?: string}}>('/second-factor', async (request, reply) => {
    const who = await requireWho(context, request, reply)
    const factors = await context.data.factorsOf(who.userId)
    if (!hasAny(factors)) throw new Detour('/security') // where one is set up
    const isNotDone = request.query.notice === 'not-done'
    return show(
      reply,
      'Confirm that it is you',
      pages.secondFactor({
        next: next.parse(request.query.next),
        factors,
        isNotDone,
        isSignedIn: Boolean(who.secondFactorAt),
      }),
    )
  })
  app.post('/second-factor', async (request, reply) => await showSecondFactor(context, request, reply))
}

async function signIn(context: Context, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const {data, signIn} = context
  const form = read(SignInForm, request.body)
  const email = form.email.trim().toLowerCase()
  const again = (status: number, error: string) => show(reply, 'Sign in', pages.signIn({...form, error}), {status})
  const attempt = await data.beginAttempt(`password ${(await knownBrowser(context, request, email)) ?? ''} ${email}`)
  if (attempt === undefined) return again(429, tooMany) // not in the audit log, which could be flooded: the ten wrong ones are
  const answer = await signIn().ask(request, '/sign-in/email', {email, password: form.password})
  if (answer.ok || answer.status === 429) await data.forgetAttempt(attempt) // of the latter the password was not looked at
  if (answer.status === 429) return again(429, tooManyHere)
  if (!answer.ok) {
    await data.record('sign_in', {userId: await data.personOf(email), ip: request.ip, outcome: 'wrong_password'})
    return again(401, 'This e-mail address and this password do not belong together.')
  }
  const {user} = Answer.parse(await answer.json())
  const before = await signIn().whoIs(request)
  if (before) await data.endSession(before.userId, before.sessionId)
  await data.record('sign_in', {userId: user.id, ip: request.ip})
  giveCookies(reply, answer.headers.getSetCookie())
  return go(reply, `/second-factor?${new URLSearchParams({next: form.next})}`)
}

async function showSecondFactor(context: Context, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const {data} = context
  const who = await requireWho(context, request, reply)
  const form = read(CodeForm, request.body)
  const again = async (status: number, error: string) => {
    const factors = await data.factorsOf(who.userId)
    const isNotDone = form.notice === 'not-done'
    const body = pages.secondFactor({next: form.next, factors, isNotDone, isSignedIn: !!who.secondFactorAt, error})
    return show(reply, 'Confirm that it is you', body, {status})
  }
  // Whoever knows the password alone must not keep the person out, nor those who are in already.
  const place = who.secondFactorAt ? `session ${who.sessionId}` : await knownBrowser(context, request, who.email)
  const attempt = await data.beginAttempt(`code ${place ?? ''} ${who.userId}`)
  if (attempt === undefined) return await again(429, tooMany)
  const result = await useCode(context, who.userId, form.code)
  if (result === 'wrong' || result === 'used') {
    await data.record('sign_in.second_factor', {userId: who.userId, ip: request.ip, outcome: `${result}_code`})
    return await again(
      401,
      result === 'used' ? 'This code was used already. Please wait for the next one.' : 'This code is not right.',
    )
  }
  await data.forgetAttempt(attempt)
  await renew(context, reply, token => data.showSecondFactor(who.token, token))
  await markBrowser(context, reply, who.email)
  await data.record('sign_in.second_factor', {userId: who.userId, ip: request.ip, target: result})
  return go(reply, form.next)
}

async function useCode(
  {data, signIn}: Context,
  userId: string,
  typed: string,
): Promise<'authenticator' | 'recovery_code' | 'wrong' | 'used'> {
  const code = typed.replaceAll(/\s/g, '')
  if (!/^\d{6}$/.test(code))
    return (await data.useRecoveryCode(userId, recoveryCodeHash(code))) ? 'recovery_code' : 'wrong'
  const encrypted = await data.authenticatorOf(userId)
  const step = encrypted === undefined ? undefined : stepOf(await signIn().decrypt(encrypted), code)
  if (step === undefined) return 'wrong'
  return (await data.useCode(userId, step)) ? 'authenticator' : 'used'
}
