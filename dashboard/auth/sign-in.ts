// better-auth, which signs people in: passwords, sessions and their cookies, passkeys, and limits for each client
// address. Promises: nobody signs up; a change goes through its handler, so past its checks of the origin and its
// limits (auth.api.* skips both); it sees only the headers that are named here, and the client's address in one that no
// client can set. What it does not do well is ours: second factors by codes (totp.ts), invitations, and the limit for
// each person (db/functions/dashboard).
//
// A session ends when it was not used for twelve hours (`expiresIn`), after a week or with another password
// (db/functions/dashboard/sign_in.sql), and by signing out or the next sign-in (both in routes/sign-in.ts).
import {AsyncLocalStorage} from 'node:async_hooks'
import {createHmac, randomBytes} from 'node:crypto'
import {passkey} from '@better-auth/passkey'
import {betterAuth} from 'better-auth'
import {APIError, createAuthEndpoint} from 'better-auth/api'
import {setSessionCookie} from 'better-auth/cookies'
import {symmetricDecrypt, symmetricEncrypt} from 'better-auth/crypto'
import type {FastifyRequest} from 'fastify'
import type pg from 'pg'
import {z} from 'zod'
import type {Logger} from '../../base/log.ts'
import {failureOf} from '../../db/client/failure.ts'

const addressHeader = 'x-sluice-address'
const cookiePrefix = '__Host-sluice'
export const browserCookie = `${cookiePrefix}.browser`

export const passwordLength = {min: 12, max: 128}

/** Why a new password would be guessed at once, for people; undefined if it would not. */
export function whyWeak(password: string, email: string): string | undefined {
  if (password.length < passwordLength.min) return `A password has at least ${passwordLength.min} characters.`
  if (new Set(password).size < 5) return 'A password has at least five different characters.'
  if (password.toLowerCase().includes(email.toLowerCase())) return 'Your e-mail address is no good password.'
  return undefined
}

/** A session that lives. */
const Session = z.object({
  session: z.object({id: z.string(), token: z.string(), secondFactorAt: z.date().nullish()}),
  user: z.object({id: z.string(), email: z.string(), name: z.string()}),
})

export interface Who {
  sessionId: string
  token: string
  /** When a second factor was last shown; undefined if never: the session then shows nothing of a merchant. */
  secondFactorAt: Date | undefined
  userId: string
  email: string
  /** Headers that prolong the cookie, now and then. */
  cookies: string[]
}

interface Options {
  /** With the role sluice_auth. */
  pool: pg.Pool
  secret: string
  /** The dashboard's URL for browsers, without a path. */
  url: string
  log: Logger
}

export class SignIn {
  readonly #auth
  readonly #secret: string
  readonly #url: string

  constructor(options: Options) {
    this.#auth = open(options)
    this.#secret = options.secret
    this.#url = options.url
  }

  /** Asks better-auth for what the browser asked us, as that browser. */
  async ask(request: FastifyRequest, path: string, body?: object): Promise<Response> {
    const headers = headersOf(request)
    if (body) headers.set('content-type', 'application/json')
    const method = body ? 'POST' : 'GET'
    const url = `${this.#url}/auth${path}`
    const asked = new Request(url, {method, headers, body: body && JSON.stringify(body)})
    return await withCause(async () => {
      const response = await this.#auth.handler(asked)
      if (response.status >= 500) throw new Error(`better-auth returned ${response.status} for ${path}`)
      return response
    })
  }

  /** Whose cookie a request has; undefined if the cookie is not ours, or its session ended. */
  async whoIs({headers: {cookie}}: FastifyRequest): Promise<Who | undefined> {
    if (!cookie?.includes(cookiePrefix)) return undefined
    const asked = {headers: new Headers({cookie}), returnHeaders: true} as const
    const {response, headers} = await withCause(() => this.#auth.api.getSession(asked))
    if (!response) return undefined
    const {session, user} = Session.parse(response)
    return {
      sessionId: session.id,
      token: session.token,
      secondFactorAt: session.secondFactorAt ?? undefined,
      userId: user.id,
      email: user.email,
      cookies: headers.getSetCookie(),
    }
  }

  /** A new session of a person who has just proved a password. Resolves to its token. */
  async begin(request: FastifyRequest, userId: string): Promise<string> {
    const {internalAdapter} = await this.#auth.$context
    const more = {ipAddress: request.ip, userAgent: userAgentOf(request)}
    return (await internalAdapter.createSession(userId, false, more)).token
  }

  /** The headers that give a browser the cookie of a session. */
  async cookiesFor(token: string): Promise<string[]> {
    const {headers} = await this.#auth.api.giveCookie({body: {token}, headers: new Headers(), returnHeaders: true})
    return headers.getSetCookie()
  }

  /**
   * For a cookie that shows that this person, with the present password, was signed in by this browser before. Others'
   * wrong passwords and codes then do not keep the person out. `person`: Data.markOf.
   */
  browserMark(person: string, browser = randomBytes(16).toString('base64url')): string {
    return `${browser}.${createHmac('sha256', this.#secret).update(`browser ${browser} ${person}`).digest('base64url')}`
  }

  async hash(password: string): Promise<string> {
    return await (await this.#auth.$context).password.hash(password)
  }

  async verify(hash: string, password: string): Promise<boolean> {
    return await (await this.#auth.$context).password.verify({hash, password})
  }

  encrypt = (text: string) => symmetricEncrypt({key: this.#secret, data: text})
  decrypt = (text: string) => symmetricDecrypt({key: this.#secret, data: text})
}

const causes = new AsyncLocalStorage<{cause?: unknown}>()

/**
 * better-auth reports a failure of the database as its own, and the cause to its logger alone. Rejects with the
 * database's error if it was one.
 */
async function withCause<T>(work: () => Promise<T>): Promise<T> {
  const told: {cause?: unknown} = {}
  try {
    return await causes.run(told, work)
  } catch (error) {
    throw failureOf(told.cause) ? told.cause : error
  }
}

const passed = ['cookie', 'origin', 'referer', 'sec-fetch-site', 'sec-fetch-mode', 'sec-fetch-dest'] as const

function headersOf(request: FastifyRequest): Headers {
  const headers = new Headers({[addressHeader]: request.ip, 'user-agent': userAgentOf(request)})
  for (const name of passed) {
    const value = request.headers[name]
    if (typeof value === 'string') headers.set(name, value)
  }
  return headers
}

export const userAgentOf = ({headers}: FastifyRequest) => (headers['user-agent'] ?? '').slice(0, 300)

function open({pool, secret, url, log}: Options) {
  return betterAuth({
    appName: 'Sluice',
    baseURL: url,
    basePath: '/auth',
    secret,
    database: pool,
    trustedOrigins: [url],
    telemetry: {enabled: false},
    logger: {
      level: 'error',
      log: (_level, message, cause) => {
        const told = causes.getStore()
        if (told) told.cause ??= cause
        if (!failureOf(cause)) log.error({message}, 'better-auth reports an error') // not its details, which may name a person
      },
    },
    emailAndPassword: {
      enabled: true,
      disableSignUp: true,
      minPasswordLength: passwordLength.min,
      maxPasswordLength: passwordLength.max,
    },
    session: {
      expiresIn: 12 * 3600,
      updateAge: 900,
      freshAge: 0, // what has to be fresh is the second factor, which the database checks
      cookieCache: {enabled: false}, // it would outlive the end of a session
      additionalFields: {secondFactorAt: {type: 'date', required: false, input: false}},
    },
    rateLimit: {
      enabled: true, // its default is off unless NODE_ENV is production
      storage: 'database',
      window: 60,
      max: 60,
      customRules: {'/sign-in/email': {window: 60, max: 20}},
    },
    advanced: {
      database: {generateId: false}, // the tables make them
      useSecureCookies: false, // it would put __Secure- before our prefix
      cookiePrefix,
      defaultCookieAttributes: {secure: true, httpOnly: true, sameSite: 'lax', path: '/'},
      ipAddress: {ipAddressHeaders: [addressHeader]},
    },
    plugins: [passkeys(url), {id: 'sluice', endpoints: {giveCookie}}],
  })
}

/**
 * A passkey counts as both factors, so the device must have verified the person. (The plugin itself only prefers that.)
 */
function passkeys(url: string) {
  const requireVerified = (isVerified: boolean | undefined) => {
    if (!isVerified) throw new APIError('BAD_REQUEST', {message: 'Your device has to verify that it is you.'})
  }
  return passkey({
    rpID: new URL(url).hostname,
    rpName: 'Sluice',
    origin: url,
    authenticatorSelection: {residentKey: 'required', userVerification: 'required'},
    registration: {
      afterVerification: async ({verification}) => requireVerified(verification.registrationInfo?.userVerified),
    },
    authentication: {
      afterVerification: async ({verification}) => requireVerified(verification.authenticationInfo?.userVerified),
    },
    advanced: {webAuthnChallengeCookie: 'passkey'},
  })
}

/** Not reachable by HTTP. */
const giveCookie = createAuthEndpoint.serverOnly({method: 'POST', body: z.object({token: z.string()})}, async ctx => {
  const found = await ctx.context.internalAdapter.findSession(ctx.body.token)
  if (!found) throw new APIError('UNAUTHORIZED')
  await setSessionCookie(ctx, found)
})
