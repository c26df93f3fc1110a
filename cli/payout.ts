// sluice payout: lists and shows payouts; retries, replaces and cancels open ones.
import {type Command, Option} from 'commander'
import type pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import {type ReasonCode, reasonOf} from '../base/reasons.ts'
import {action, leaf, requireId} from './command.ts'
import {endOf} from './incident.ts'
import {findMerchant, merchantOption} from './merchant.ts'
import {facts, moment, table} from './output.ts'
import {type Page, type PageOptions, paged, pageOf, withTotal} from './page.ts'

const statuses = ['pending', 'sweeping', 'swept', 'paying', 'completed', 'failed']

interface Payout {
  id: string
  merchant: string
  status: string
  chain: string
  token: string
  gross: string
  fee: string
  net: string
  address: string
  sweep_first: boolean
  txid: string | null
  /** In the native coin. */
  network_fee: string
  native_token: string
  /** `detail`: more about it; null if there is nothing more. */
  error: {code: string; message: string; detail: string | null} | null
  /** What it really waits for: itself, one of its sweeps, or its payment. */
  waiting: {reason: ReasonCode; detail: string | null; since: string} | null
  created_at: string
  finished_at: string | null
}

interface Transaction {
  kind: string
  status: string
  outcome: string | null
  /** Why it had no effect, once it has ended; null if it had. */
  failure: string | null
  chain: string
  from: string
  to: string
  amount: string
  fee_payer: string
  /** Null where there are no nonces. */
  nonce: number | null
  txid: string | null
  attempts: {
    txid: string
    kind: string
    /** As in app.attempt_fate; null if custody's journal does not have it. */
    fate: 'open' | 'in_block' | 'final' | 'dead' | null
    stored_at: string
    /** Where transactions expire: the last block that may hold it, or its time. */
    valid_until: string | null
    broadcast_at: string | null
    broadcast_error: string | null
  }[]
}

const columns = `
  app.public_id('pay', p.id) as id, m.prefix as merchant, p.status, p.chain, p.token,
  app.decimal(p.gross, a.decimals) as gross, app.decimal(p.fee, a.decimals) as fee, app.decimal(p.net, a.decimals) as net,
  p.address, p.sweep_first, p.txid, app.decimal(p.network_fee, n.decimals) as network_fee, c.native_token,
  case when p.error_code is not null then json_build_object('code', p.error_code, 'message', p.error_message, 'detail', p.error_detail) end as error,
  (select json_build_object('reason', w.reason, 'detail', w.detail, 'since', app.iso(w.since)) from app.why_payout_waits(p) w where w.reason is not null) as waiting,
  app.iso(p.created_at) as created_at, app.iso(p.finished_at) as finished_at`
const source = `app.payout p join app.merchant m on m.id = p.merchant_id join app.asset a on a.chain = p.chain and a.token = p.token
  join app.chain c on c.chain = p.chain join app.asset n on n.chain = c.chain and n.token = c.native_token`

export function addPayoutCommands(program: Command): void {
  const payout = program.command('payout').description('payouts: list, show, retry, replace, cancel')

  paged(leaf(payout, 'list', 'Lists payouts, the newest first.', 'sluice payout list --merchant acme --status paying'))
    .option(...merchantOption)
    .addOption(
      new Option('--status <status>', 'only payouts in this status; open: not completed or failed').choices([
        ...statuses,
        'open',
      ]),
    )
    .action(
      action<PageOptions & {merchant?: string; status?: string}>(async ({db}, {merchant, status, ...of}) => {
        const owner = merchant === undefined ? null : (await findMerchant(db, merchant)).id
        const wanted = status === 'open' ? ['pending', 'sweeping', 'swept', 'paying'] : status ? [status] : statuses
        const page = await pageOf<Payout>(
          db,
          `select ${columns}, p.seq as position from ${source} where ($1::uuid is null or p.merchant_id = $1) and p.status = any($2)`,
          [owner, wanted],
          of,
        )
        const {rows, total, next} = page
        return {
          json: {payouts: rows, total, next},
          text: withTotal(
            table(
              ['merchant', 'status', 'net', '', 'requested', 'waits for', 'id'],
              rows.map(row => [
                row.merchant,
                row.status,
                row.net,
                row.chain === row.token ? row.token : `${row.token} (${row.chain})`,
                moment(row.created_at),
                row.error?.code ?? row.waiting?.reason,
                row.id,
              ]),
              'There are no such payouts.',
            ),
            page,
          ),
        }
      }),
    )

  paged(
    leaf(
      payout,
      'show',
      'Shows a payout, the transactions for it, and why it waits.',
      'sluice payout show pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508',
    ),
  )
    .argument('<id>', 'id of the payout')
    .action(
      action<PageOptions>(async ({db}, of, id) => {
        const uuid = requireId('pay', 'payout', id)
        const {rows} = await db.query<Payout>(`select ${columns} from ${source} where p.id = $1`, [uuid])
        if (!rows[0]) throw new PermanentError(`there is no payout ${id}; sluice payout list shows them`)
        const page = await transactionsOf(db, uuid, of)
        const {rows: transactions, total, next} = page
        return {
          json: {...rows[0], transactions, total_transactions: total, next},
          text: withTotal(describe(rows[0], transactions), page),
        }
      }),
    )

  leaf(
    payout,
    'retry',
    'Retries a waiting payout now. A failed payout stays failed: its merchant must request another.',
    'sluice payout retry pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508',
  )
    .argument('<id>', 'id of the payout')
    .action(
      action(async ({db}, _options, id) => {
        await db.query('select app.retry_payout($1)', [requireId('pay', 'payout', id)])
        return {json: {id, retried: true}, text: `Payout ${id} is tried again now.`}
      }),
    )

  leaf(
    payout,
    'replace',
    [
      'Raises the network fee of a payout that is paying (RBF), at once, even if its chain is halted. Not where transactions expire (Tron, Solana).',
      '',
      'While a chain is halted, only replace and cancel sign transactions on it: they are for a payment that was sent already. The new fee is what',
      'the network asks for now, at least an eighth more than before (on Bitcoin 1 sat for each virtual byte more). It counts in the fee budget.',
    ].join('\n'),
    'sluice payout replace pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508',
  )
    .argument('<id>', 'id of the payout')
    .action(
      action(async ({db}, _options, id) => {
        await db.query('select app.replace_payout_by_operator($1)', [requireId('pay', 'payout', id)])
        return {
          json: {id, replacing: true},
          text: `The payment of ${id} is being replaced; sluice payout show shows the result.`,
        }
      }),
    )

  leaf(
    payout,
    'cancel',
    [
      'Cancels a payout: it fails, and the merchant gets the balance back.',
      '',
      'A payout that is pending, sweeping or swept fails at once. For a payout that is paying, Sluice signs a transaction that moves nothing and',
      'takes the nonce of the payment. The payout fails when that transaction is final, or is completed if the payment is mined first. The cancel',
      'is signed even if the chain is halted. Where transactions expire (Tron, Solana), there is no cancel to sign: the payment is not sent any more, and the',
      'payout fails when it has expired.',
    ].join('\n'),
    'sluice payout cancel pay_0192f3a4b5c67d8e9fa0b1c2d3e4f508',
  )
    .argument('<id>', 'id of the payout')
    .action(
      action(async ({db}, _options, id) => {
        const {rows} = await db.query<{done: 'failed' | 'cancelling'}>(
          'select app.cancel_payout_by_operator($1) as done',
          [requireId('pay', 'payout', id)],
        )
        const {done} = rows[0]!
        const text =
          done === 'failed'
            ? `Payout ${id} failed; the merchant has the balance back.`
            : `Payout ${id} is paying: it fails once its payment can never be mined, and is completed if it is mined first. sluice payout show shows which.`
        return {json: {id, cancelled: done}, text}
      }),
    )
}

/** The newest ones, the oldest of them first. */
async function transactionsOf(db: pg.Client, payout: string, of: PageOptions): Promise<Page<Transaction>> {
  const page = await pageOf<Transaction>(
    db,
    `select s.id as position, s.kind, s.status, s.outcome, app.why_failed(s) as failure, s.chain, s.source as "from", s.recipient as "to", app.decimal(s.amount, a.decimals) as amount, s.fee_payer,
       s.nonce, s.txid, (select coalesce(json_agg(t order by t.attempt), '[]') from (
         select o.attempt, o.txid, o.kind, f.fate, app.iso(o.stored_at) as stored_at, ${endOf} as valid_until, app.iso(o.broadcast_at) as broadcast_at, o.broadcast_error
         from app.outgoing_attempt o join app.chain k on k.chain = o.chain left join custody.journal j on j.stream = o.chain and j.txid = o.txid
         left join app.attempt_fate f on f.chain = o.chain and f.txid = o.txid where o.outgoing_payment_id = s.id) t) as attempts
     from app.outgoing_payment s join app.asset a on a.chain = s.chain and a.token = s.token
     where s.id in (select l.outgoing_payment_id from app.payout_sweep l where l.payout_id = $1) or s.payout_id = $1`,
    [payout],
    of,
  )
  return {...page, rows: page.rows.reverse()}
}

function describe(payout: Payout, transactions: Transaction[]): string {
  const {waiting, error} = payout
  const expires = transactions.some(({attempts}) => attempts.some(({valid_until}) => valid_until !== null))
  return [
    facts({
      id: payout.id,
      merchant: payout.merchant,
      status: payout.status,
      pays: `${payout.net} ${payout.token} on ${payout.chain} (gross ${payout.gross}, fee ${payout.fee})`,
      to: payout.address,
      requested: moment(payout.created_at),
      ...(payout.finished_at && {finished: moment(payout.finished_at)}),
      ...(payout.txid && {txid: payout.txid}),
      'network fees': `${payout.network_fee} ${payout.native_token}`,
      ...(waiting && {
        'waits for': `${waiting.reason}, since ${moment(waiting.since)}`,
        ...(waiting.detail && {because: waiting.detail}),
        'what to do': reasonOf(waiting.reason).do,
      }),
      ...(error && {error: `${error.code}: ${error.message}`, ...(error.detail && {because: error.detail})}),
    }),
    table(
      [
        'transaction',
        'state',
        'amount',
        'from',
        expires ? 'valid until' : 'nonce',
        'attempts',
        'newest txid',
        'which is',
      ],
      transactions.map(tx => [
        tx.kind,
        tx.outcome ?? tx.status,
        tx.amount,
        tx.from,
        expires ? shownOf(tx)?.valid_until : tx.nonce,
        tx.attempts.length,
        tx.txid ?? shownOf(tx)?.txid,
        shownOf(tx)?.fate?.replace('_', ' '),
      ]),
      'There is no transaction for it yet.',
    ),
    ...failures(transactions),
  ].join('\n\n')
}

/** What had no effect, and why. */
function failures(transactions: Transaction[]): string[] {
  const failed = transactions.filter(({failure}) => failure !== null)
  if (!failed.length) return []
  return [
    table(
      ['failed', 'amount', 'from', 'because'],
      failed.map(tx => [tx.kind, tx.amount, tx.from, tx.failure]),
      '',
    ),
  ]
}

/** The transaction that ended it, else the newest attempt. */
const shownOf = ({txid, attempts}: Transaction) => attempts.find(attempt => attempt.txid === txid) ?? attempts.at(-1)
