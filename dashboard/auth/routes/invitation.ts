// Accepting an invitation: a new person joins a merchant, or somebody gets a new password. Promises: opening the link
// changes nothing and signs nobody in; the database accepts it once; whoever accepts it is signed in with a session of
// a token that nobody knew before, and sets up a second factor next.
import {createHash} from 'node:crypto'
import type {FastifyReply, FastifyRequest} from 'fastify'
import type {DatabaseError} from 'pg'
import {z} from 'zod'
import {type Context, giveCookies, go, markBrowser, Refusal, read, show, text} from '../app.ts'
import * as pages from '../pages.ts'
import {passwordLength, whyWeak} from '../sign-in.ts'

const Password = z.object({password: text(passwordLength.max)})
const NewPerson = Password.extend({name: text(100), email: text(pages.emailLength)})

type Request = FastifyRequest<{Params: {token: string}}>

export function invitationRoutes(context: Context): void {
  context.app.get<{Params: {token: string}}>('/invitation/:token', async (request, reply) => {
    const {merchant, email} = await find(context, request)
    return show(reply, email ? 'New password' : 'Invitation', pages.invitation({merchant, reset: email}))
  })
  context.app.post<{Params: {token: string}}>(
    '/invitation/:token',
    async (request, reply) => await accept(context, request, reply),
  )
}

const hashOf = (token: string) => createHash('sha256').update(token).digest()

async function find({data}: Context, {params: {token}}: Request) {
  const found = await data.invitation(hashOf(token))
  if (found.state === null)
    throw new Refusal(404, 'There is no such invitation', 'Please check that you copied the whole link.')
  if (found.state !== 'open') throw ended()
  return found
}

const ended = () =>
  new Refusal(
    410,
    'This invitation has ended',
    'It was used, or is older than a day. Please ask your operator for a new one.',
  )

async function accept(context: Context, request: Request, reply: FastifyReply): Promise<FastifyReply> {
  const {data, signIn} = context
  const invitation = await find(context, request)
  const reset = invitation.email
  const {name, email, password} = reset ? {...read(Password, request.body), name: '', email: reset} : personOf(request)
  const again = (error: string, status = 422) => {
    const body = pages.invitation({merchant: invitation.merchant, reset, name, email, error})
    return show(reply, reset ? 'New password' : 'Invitation', body, {status})
  }
  if (!reset && !name) return again('Please type your name.')
  if (!z.email().safeParse(email).success) return again('Please type a whole e-mail address.')
  const weak = whyWeak(password, email)
  if (weak) return again(weak)
  // A link must not tell whoever has it who else signs in here.
  const attempt = await data.beginAttempt(`invitation ${hashOf(request.params.token).toString('base64url')}`)
  if (attempt === undefined) return again('There were too many attempts. Please wait 15 minutes and try again.', 429)
  const before = await signIn().whoIs(request)
  const person = {name, email, hash: await signIn().hash(password), ip: request.ip}
  try {
    const userId = await data.accept(hashOf(request.params.token), person)
    if (before) await data.endSession(before.userId, before.sessionId)
    giveCookies(reply, await signIn().cookiesFor(await signIn().begin(request, userId)))
    await markBrowser(context, reply, email)
  } catch (error) {
    const {code, message} = error as DatabaseError
    if (code === 'SL410') throw ended()
    if (code === 'SL422') return again(message)
    throw error
  }
  return go(reply, '/security')
}

function personOf({body}: Request) {
  const {name, email, password} = read(NewPerson, body)
  return {name: name.trim(), email: email.trim().toLowerCase(), password}
}
