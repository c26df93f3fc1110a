// People of the dashboard for tests, made as the owner of the database: signing in is tested with real requests
// elsewhere (dashboard/auth).
import {randomBytes} from 'node:crypto'
import type {TestDatabase} from './database.ts'

export interface SignedIn {
  userId: string
  email: string
  /** Of a session in which the second factor was shown just now. */
  token: string
}

/** A new person of this merchant, with a live session. */
export async function signIn(db: Pick<TestDatabase, 'rows'>, merchantId: string): Promise<SignedIn> {
  const email = `${randomBytes(6).toString('hex')}@example.test`
  const [user] = await db.rows<{id: string}>(
    `with person as (insert into auth."user" (name, email, "emailVerified") values ('Ada', $1, true) returning id)
     insert into dashboard.member (user_id, merchant_id) select id, $2 from person returning user_id as id`,
    [email, merchantId],
  )
  return {userId: user!.id, email, token: await newSession(db, user!.id)}
}

interface SessionOptions {
  /** PostgreSQL intervals from now. */
  expiresIn?: string
  /** null: no second factor was shown. */
  secondFactorIn?: string | null
}

/** Another session of a person; returns its token. */
export async function newSession(
  db: Pick<TestDatabase, 'rows'>,
  userId: string,
  {expiresIn = '1 hour', secondFactorIn = '0 s'}: SessionOptions = {},
): Promise<string> {
  const token = randomBytes(24).toString('base64url')
  await db.rows(
    `insert into auth.session ("userId", token, "expiresAt", "secondFactorAt", "ipAddress") values ($1, $2, now() + $3::interval, now() + $4::interval, '192.0.2.7')`,
    [userId, token, expiresIn, secondFactorIn],
  )
  return token
}
