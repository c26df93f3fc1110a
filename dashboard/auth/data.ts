// What the sign-in process asks the database, with the role sluice_auth. What changes second factors, passwords or
// invitations is a function of db/functions/dashboard, whole or not at all.
import type pg from 'pg'

export interface Invitation {
  /** Null if there is none. */
  state: 'open' | 'used' | 'old' | null
  merchant: string
  /** Of the person, if it is for a new password and second factor. */
  email: string | null
}

export interface Factors {
  has_authenticator: boolean
  recovery_codes: number
  passkeys: number
}

export interface SessionRow {
  id: string
  createdAt: Date
  ipAddress: string | null
  userAgent: string | null
}

export interface PasskeyRow {
  id: string
  name: string | null
  createdAt: Date
}

interface Entry {
  userId?: string
  ip: string
  outcome?: string
  target?: string
}

export class Data {
  readonly #pool: pg.Pool

  constructor(pool: pg.Pool) {
    this.#pool = pool
  }

  async #row<T extends pg.QueryResultRow>(text: string, values: unknown[]): Promise<T | undefined> {
    return (await this.#pool.query<T>(text, values)).rows[0]
  }

  async #rows<T extends pg.QueryResultRow>(text: string, values: unknown[]): Promise<T[]> {
    return (await this.#pool.query<T>(text, values)).rows
  }

  /** Adds an entry to the audit log. */
  async record(action: string, {userId, ip, outcome = 'done', target}: Entry): Promise<void> {
    await this.#row('select dashboard.record($1, $2, $3, $4, $5)', [userId, action, ip, outcome, target])
  }

  /** Counts an attempt before it is checked; undefined if there were too many. Forget it if it was right. */
  async beginAttempt(subject: string): Promise<string | undefined> {
    const row = await this.#row<{id: string | null}>('select dashboard.begin_attempt($1) as id', [subject])
    return row?.id ?? undefined
  }

  async forgetAttempt(attempt: string): Promise<void> {
    await this.#row('select dashboard.forget_attempt($1)', [attempt])
  }

  async personOf(email: string): Promise<string | undefined> {
    return (await this.#row<{id: string}>('select id from auth."user" where email = $1', [email]))?.id
  }

  /**
   * What the mark of a browser belongs to: a person, with the present password. undefined if there is no such person.
   */
  async markOf(email: string): Promise<string | undefined> {
    const text = `select u.id || ' ' || a."updatedAt" as mark from auth."user" u join auth.account a on a."userId" = u.id and a."providerId" = 'credential'
      where u.email = $1`
    return (await this.#row<{mark: string}>(text, [email]))?.mark
  }

  async merchantOf(userId: string): Promise<string> {
    return (await this.#row<{name: string}>('select dashboard.merchant_name($1) as name', [userId]))?.name ?? ''
  }

  async passwordOf(userId: string): Promise<string> {
    const text = `select password from auth.account where "userId" = $1 and "providerId" = 'credential'`
    return (await this.#row<{password: string}>(text, [userId]))?.password ?? ''
  }

  async changePassword(token: string, newToken: string, hash: string): Promise<void> {
    await this.#row('select dashboard.change_password($1, $2, $3)', [token, newToken, hash])
  }

  // --- second factors ---

  async factorsOf(userId: string): Promise<Factors> {
    return (await this.#row<Factors>('select * from dashboard.second_factors($1)', [userId]))!
  }

  /** Encrypted. */
  async authenticatorOf(userId: string): Promise<string | undefined> {
    return (await this.#row<{secret: string}>('select secret from auth.authenticator where user_id = $1', [userId]))
      ?.secret
  }

  async useCode(userId: string, step: number): Promise<boolean> {
    return (await this.#row<{used: boolean}>('select dashboard.use_code($1, $2) as used', [userId, step]))!.used
  }

  async useRecoveryCode(userId: string, hash: Buffer): Promise<boolean> {
    return (await this.#row<{used: boolean}>('select dashboard.use_recovery_code($1, $2) as used', [userId, hash]))!
      .used
  }

  /** A second factor was shown in a session, which gets another token. */
  async showSecondFactor(token: string, newToken: string): Promise<void> {
    await this.#row('select dashboard.show_second_factor($1, $2)', [token, newToken])
  }

  /** Throws SLSTP if a second factor has to be shown before one is changed. */
  async requireMayChangeFactors(token: string): Promise<void> {
    await this.#row('select dashboard.lock_second_factors($1)', [token])
  }

  async setAuthenticator(token: string, encryptedSecret: string, codes: Buffer[]): Promise<void> {
    await this.#row('select dashboard.set_authenticator($1, $2, $3)', [token, encryptedSecret, codes])
  }

  async setRecoveryCodes(token: string, codes: Buffer[]): Promise<void> {
    await this.#row('select dashboard.set_recovery_codes($1, $2)', [token, codes])
  }

  async passkeysOf(userId: string): Promise<PasskeyRow[]> {
    const text = 'select id, name, "createdAt" from auth.passkey where "userId" = $1 order by "createdAt", id limit 100'
    return await this.#rows(text, [userId])
  }

  /** Resolves to its name. */
  async removePasskey(token: string, id: string): Promise<string> {
    return (await this.#row<{name: string}>('select dashboard.remove_passkey($1, $2) as name', [token, id]))!.name
  }

  // --- sessions ---

  async sessionsOf(userId: string): Promise<SessionRow[]> {
    const text = `select id, "createdAt", "ipAddress", "userAgent" from auth.session
      where "userId" = $1 and "expiresAt" > clock_timestamp() order by "createdAt" desc, id limit 100`
    return await this.#rows(text, [userId])
  }

  /** Whether it lived. */
  async endSession(userId: string, id: string): Promise<boolean> {
    return (
      (await this.#pool.query('delete from auth.session where id = $1 and "userId" = $2', [id, userId])).rowCount === 1
    )
  }

  async endOtherSessions(userId: string, id: string): Promise<void> {
    await this.#row('delete from auth.session where "userId" = $2 and id <> $1', [id, userId])
  }

  // --- invitations ---

  async invitation(tokenHash: Buffer): Promise<Invitation> {
    return (await this.#row<Invitation & pg.QueryResultRow>('select * from dashboard.find_invitation($1)', [
      tokenHash,
    ]))!
  }

  /** Resolves to the person. Throws SL404, SL410 or SL422. */
  async accept(
    tokenHash: Buffer,
    {name, email, hash, ip}: Record<'name' | 'email' | 'hash' | 'ip', string>,
  ): Promise<string> {
    const values = [tokenHash, name, email, hash, ip]
    return (await this.#row<{id: string}>('select dashboard.accept_invitation($1, $2, $3, $4, $5) as id', values))!.id
  }
}
