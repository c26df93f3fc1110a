// What the worlds of chains have in common whose transactions expire.
import {until} from './until.ts'
import {type Shop, World} from './world.ts'

export interface Attempt {
  txid: string
  fate: string
  lapsed: boolean
}

export class ExpiringWorld extends World {
  /** The clock of the proofs, by this many hours. */
  async moveClock(hours: number): Promise<void> {
    const [past] = await this.db.rows<{sql: string}>(`select pg_get_functiondef('chain.is_past_end'::regproc) as sql`)
    await this.db.rows(past!.sql.replace('clock_timestamp()', `(clock_timestamp() + interval '${hours} hours')`))
  }

  /** An outgoing payment, once it has ended. */
  async ended(id: string): Promise<{outcome: string; txid: string | null}> {
    return await until(
      async () => {
        const [row] = await this.db.rows<{outcome: string; txid: string | null}>(
          `select outcome, txid from app.outgoing_payment where id = $1 and status = 'final'`,
          [id],
        )
        return row
      },
      {timeoutMs: 40_000, what: 'the outgoing payment to end'},
    )
  }

  /** Of a payout, a sweep or a withdrawal. */
  async attempts(subject: string): Promise<Attempt[]> {
    return await this.db.rows<Attempt>(
      'select txid, fate, lapsed from app.attempt_fate where chain = $1 and subject_id = $2 order by seq',
      [this.chain, subject],
    )
  }

  /** Its attempts, once they are this many. */
  async signed(subject: string, count: number): Promise<Attempt[]> {
    return await until(
      async () => {
        const attempts = await this.attempts(subject)
        return attempts.length === count && attempts
      },
      {timeoutMs: 30_000, what: `${count} attempts`},
    )
  }

  /** When its bytes were last given to the node. */
  async lastSent(txid: string): Promise<Date | null> {
    const [row] = await this.db.rows<{at: Date | null}>(
      'select broadcast_at as at from app.outgoing_attempt where txid = $1',
      [txid],
    )
    return row?.at ?? null
  }

  async sent(txid: string): Promise<void> {
    await until(() => this.lastSent(txid), {timeoutMs: 30_000, what: 'the transaction to be sent'})
  }

  /** What the payment of a payout waits for. */
  async waitsFor(payout: string): Promise<string | null> {
    const [row] = await this.db.rows<{reason: string | null}>(
      `select waiting_reason as reason from app.outgoing_payment where payout_id = $1 and kind = 'payout'`,
      [payout],
    )
    return row?.reason ?? null
  }

  async wakePayment(payout: string): Promise<void> {
    await this.db.rows(
      `update app.outgoing_payment set next_step_at = now() where payout_id = $1 and kind = 'payout' and status <> 'final'`,
      [payout],
    )
  }

  /** Waits until this much can be paid out. */
  async untilBalance({id}: Shop, amount: bigint): Promise<void> {
    const sql = 'select from app.balance_now where merchant_id = $1 and amount = $2'
    await until(async () => (await this.db.rows(sql, [id, String(amount)])).length, {
      timeoutMs: 20_000,
      what: 'the balance',
    })
  }

  /** Of the treasury's native coin. */
  async reserved(): Promise<bigint> {
    const [row] = await this.db.rows<{reserved: string}>(
      'select reserved from app.treasury where chain = $1 and token = app.native_token(chain)',
      [this.chain],
    )
    return BigInt(row!.reserved)
  }
}
