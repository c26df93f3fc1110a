// A database with 40,000 payments, to see which pages a statement reads. For tests that a query stays fast when a
// service is old.
import type pg from 'pg'
import {type TestDatabase, testDatabase} from './database.ts'

/** Two chains with 20,000 payments each, all but 21 of them final. */
export async function manyPayments(): Promise<TestDatabase> {
  const db = await testDatabase()
  await db.rows(`
    set session_replication_role = replica;
    insert into chain.cursor (chain, network, head_height, head_hash, head_time, final_height, final_hash, followed_from)
    select c, 'test', 1000, 'x', now(), 990, 'x', 1 from unnest(array['ETH', 'BTC']) c;
    insert into custody.journal (stream, seq, kind, subject_id, sender, nonce, txid, signed_at, hash, conflict_key)
    select c, n, 'withdraw', md5(c || n)::uuid, '0xA', n, md5(c || n), now(), '', '0xA:' || n
    from unnest(array['ETH', 'BTC']) c, generate_series(1, 20000) n;
    insert into custody.journal_key (stream, seq, conflict_key) select stream, seq, conflict_key from custody.journal
    union all select 'BTC', n, md5('output' || n) || ':0' from generate_series(1, 20000) n;
    insert into chain.confirmed_tx (id, chain, txid, block_height, block_hash, block_time, account, nonce, success, fee)
    select stream || ':' || txid, stream, txid, seq / 20, 'x', now(), '0xA', nonce, true, 1 from custody.journal where seq < 19980;
    insert into app.outgoing_payment (id, kind, chain, token, amount, source, recipient, fee_payer, nonce, status, next_step_at, max_fee)
    select subject_id, 'withdrawal', stream, stream, 1, '0xA', 'you', '0xA', nonce, case when seq < 19980 then 'final' else 'live' end,
      case when seq >= 19980 then now() end, 1 from custody.journal;
    insert into app.outgoing_attempt (chain, txid, outgoing_payment_id, attempt, kind, raw, token, source, recipient, amount, max_fee, fee_details)
    select chain, md5(chain || nonce), id, 1, 'effect', '', chain, '0xA', 'you', 1, 1, '{}' from app.outgoing_payment;
    insert into app.output (chain, txid, vout, address, amount, outgoing_payment_id, from_attempt)
    select 'BTC', md5('output' || n), 0, '0xA', 1, md5('BTC' || n)::uuid, 1 from generate_series(1, 20000) n;
    reset session_replication_role;
    analyze`)
  return db
}

/** Connections that run each statement and keep the plan instead of the rows. */
export function explaining({pool}: TestDatabase): {pool: pg.Pool; plan: () => string} {
  let plan = ''
  const query = async (asked: string | pg.QueryConfig, values?: unknown[]) => {
    const {text, values: given} = typeof asked === 'string' ? {text: asked, values} : asked
    const {rows} = await pool.query(`explain (analyze, buffers, costs off, timing off) ${text}`, given)
    plan += rows.map(row => `${row['QUERY PLAN']}\n`).join('')
    return {rows: []}
  }
  return {pool: {query} as never, plan: () => plan}
}

/** The pages that the whole statement read, by its first line with numbers. */
export function pagesOf(plan: string): number {
  const [, hit, read] = plan.match(/Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?/)!
  return Number(hit ?? 0) + Number(read ?? 0)
}
