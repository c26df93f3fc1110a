// What the routes of the sign-in process share: whose request it is, forms, cookies, and where to go next.

import {randomBytes} from 'node:crypto'
import type {FastifyInstance, FastifyReply, FastifyRequest} from 'fastify'
import {z} from 'zod'
import type {Html} from '../../base/html.ts'
import {whatIsWrong} from '../../base/wrong-value.ts'
import {page} from '../layout.ts'
import type {Data} from './data.ts'
import {browserCookie, type SignIn, type Who} from './sign-in.ts'

export interface Context {
  app: FastifyInstance
  data: Data
  /** Available once the server listens. */
  signIn: () => SignIn
  /** The dashboard's URL for browsers, without a path. */
  url: () => string
}

/** An error that is shown as it is. */
export class Refusal extends Error {
  readonly statusCode: number
  readonly title: string

  constructor(statusCode: number, title: string, message: string) {
    super(message)
    this.statusCode = statusCode
    this.title = title
  }
}

/** Thrown where somebody has to go elsewhere first. */
export class Detour extends Error {
  readonly to: string

  constructor(to: string) {
    super('see elsewhere')
    this.to = to
  }
}

// --- forms ---

/** A field of a form: text that the database can store. (A NUL, or half of a surrogate pair, is no text.) */
export const text = (max: number) =>
  z
    .string()
    .max(max, `It has more than ${max} characters.`)
    .refine(value => !value.includes('\0') && value.isWellFormed(), 'It has a character that cannot be used.')

/** Where to go after signing in: a path of ours, or the overview. */
export const next = z
  .string()
  .catch('/')
  .transform(path => (isLocal(path) ? path : '/'))

function isLocal(path: string): boolean {
  return path.length <= 4000 && /^\/(?![/\\])[\x21-\x7e]*$/.test(path) && !path.includes('\\')
}

/** The fields of a form. Throws a Refusal that names the field that is wrong. */
export function read<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  const {data, error} = schema.safeParse(body ?? {}, {error: whatIsWrong})
  if (!error) return data as z.output<T>
  const [issue] = error.issues
  throw new Refusal(400, 'This cannot be read', `${String(issue?.path[0] ?? 'The form')} ${issue?.message}.`)
}

// --- replies ---

export function show(reply: FastifyReply, title: string, body: Html, {status = 200, person}: Shown = {}): FastifyReply {
  return reply
    .code(status)
    .type('text/html; charset=utf-8')
    .send(page({title, body, person, section: person && '/security'}))
}

interface Shown {
  status?: number
  person?: {email: string; merchant: string}
}

export const go = (reply: FastifyReply, to: string) => reply.code(303).header('location', to).send()

/** Fastify adds one header for each cookie. */
export function giveCookies(reply: FastifyReply, cookies: string[]): void {
  for (const cookie of cookies) reply.header('set-cookie', cookie)
}

/** Lets a browser show later that this person was signed in there. */
export async function markBrowser({data, signIn}: Context, reply: FastifyReply, email: string): Promise<void> {
  const mark = signIn().browserMark((await data.markOf(email)) ?? '')
  reply.header('set-cookie', `${browserCookie}=${mark}; Path=/; Max-Age=31536000; HttpOnly; Secure; SameSite=Lax`)
}

/** The browser's name, if this person was signed in there before with the present password; else undefined. */
export async function knownBrowser(
  {data, signIn}: Context,
  {headers: {cookie = ''}}: FastifyRequest,
  email: string,
): Promise<string | undefined> {
  const mark = cookie.split('; ').find(each => each.startsWith(`${browserCookie}=`))
  const [browser] = mark?.slice(browserCookie.length + 1).split('.') ?? []
  const person = browser && (await data.markOf(email))
  if (!person) return undefined
  return mark === `${browserCookie}=${signIn().browserMark(person, browser)}` ? browser : undefined
}

// --- people ---

export const newToken = () => randomBytes(32).toString('base64url')

/** The person of a session, whether a second factor was shown or not. Others sign in first. */
export async function requireWho({signIn}: Context, request: FastifyRequest, reply: FastifyReply): Promise<Who> {
  const who = await signIn().whoIs(request)
  if (!who) throw new Detour(`/sign-in?${new URLSearchParams({next: request.method === 'GET' ? request.url : '/'})}`)
  giveCookies(reply, who.cookies)
  return who
}

/** The person of a session in which a second factor was shown, or who has none yet. */
export async function requireTrusted(context: Context, request: FastifyRequest, reply: FastifyReply): Promise<Who> {
  const who = await requireWho(context, request, reply)
  if (!who.secondFactorAt && hasAny(await context.data.factorsOf(who.userId)))
    throw new Detour(`/second-factor?${new URLSearchParams({next: '/security'})}`)
  return who
}

export const hasAny = (factors: {has_authenticator: boolean; passkeys: number}) =>
  factors.has_authenticator || factors.passkeys > 0

/** The session gets the token that `change` stores; the browser gets its cookie. */
export async function renew(
  {signIn}: Context,
  reply: FastifyReply,
  change: (newToken: string) => Promise<void>,
): Promise<void> {
  const token = newToken()
  await change(token)
  reply.removeHeader('set-cookie') // one that prolonged the old token
  giveCookies(reply, await signIn().cookiesFor(token))
}
