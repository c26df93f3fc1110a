// Writes the table of reasons (base/reasons.ts) into app.reason, where SQL reads it. Safe to repeat: it changes only
// what differs.
import type pg from 'pg'
import {type Reason, reasons, waitingCodes} from '../../base/reasons.ts'

export async function writeReasons(client: pg.Client): Promise<void> {
  const rows = Object.entries<Reason>(reasons).map(
    ([reason, {liesWith = 'payment', merchant, fails = 'timed_out'}]) => {
      return {reason, lies_with: liesWith, code: merchant, message: merchant && waitingCodes[merchant], fails}
    },
  )
  await client.query(
    `merge into app.reason r using json_populate_recordset(null::app.reason, $1) n on n.reason = r.reason
     when matched and r is distinct from n then update set lies_with = n.lies_with, code = n.code, message = n.message, fails = n.fails
     when not matched then insert values (n.reason, n.lies_with, n.code, n.message, n.fails)
     when not matched by source then delete`,
    [JSON.stringify(rows)],
  )
}
