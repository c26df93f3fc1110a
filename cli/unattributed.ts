// sluice unattributed: deposits that no merchant was credited with, because their chain or token was not requested, or
// because no transaction paid them. The operator credits or returns them.
import type {Command} from 'commander'
import type pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import type {ChainCode} from '../chains/registry.ts'
import {
  action,
  chainCode,
  confirm,
  foreignAddress,
  leaf,
  requireId,
  type Sluice,
  settingsWithTokens,
} from './command.ts'
import {moment, type Report, table} from './output.ts'
import {type PageOptions, paged, pageOf, withTotal} from './page.ts'
import {requireWhitelisted} from './whitelist.ts'

interface Unattributed {
  id: string
  merchant: string | null
  /** The user whose address it is, or the payment request. */
  external_ref: string | null
  payment_request: string | null
  chain: string
  token: string
  /** In whole coins; null where the token is not supported. */
  amount: string | null
  amount_base_units: string
  reason: string
  status: string
  address: string
  txid: string
  created_at: string
  decision: 'credit' | 'return' | null
  destination: string | null
  /** The progress of a return. */
  state: string | null
  waiting: {reason: string; detail: string | null} | null
  sweep_txid: string | null
  withdrawal_txid: string | null
  dismissed: boolean
}

// Deposits to the treasury belong to the operator; only tokens that Sluice cannot move from there are listed.
const listed = `
  select d.seq as position, app.public_id('dep', d.id) as id, m.prefix as merchant, u.external_ref, p.external_id as payment_request, d.chain, d.token,
    app.decimal(d.amount, a.decimals) as amount, d.amount::text as amount_base_units,
    app.why_unattributed(app.is_from_protocol(d.transfer_kind, d.output_index, d.token), a.token is not null, w.is_provisioned, d.token, p.token) as reason,
    d.status, d.address, d.txid, app.iso(d.created_at) as created_at, r.decision, r.destination,
    case when r.decision = 'return' then case
      when t.status <> 'final' then 'leaving the treasury'
      when t.outcome = 'done' then 'returned'
      when t.outcome is not null then 'not paid: ' || t.outcome
      when s.status <> 'final' then 'on its way to the treasury'
      when s.outcome = 'done' then case when r.destination is null then 'in the treasury, and needs a destination' else 'in the treasury' end
      when s.outcome is not null then 'not moved: ' || s.outcome
      else 'decided' end end as state,
    (select json_build_object('reason', reason, 'detail', detail) from (values
      (coalesce(t.waiting_reason, s.waiting_reason, r.waiting_reason), coalesce(t.waiting_detail, s.waiting_detail, r.waiting_detail))
    ) x (reason, detail) where reason is not null) as waiting,
    s.txid as sweep_txid, t.txid as withdrawal_txid, app.is_dismissed(d) as dismissed
  from app.deposit d
  left join app.unattributed_decision r on r.deposit_id = d.id
  left join app.merchant m on m.id = d.merchant_id
  left join app.user u on u.id = d.user_id
  left join app.payment_request p on p.id = d.payment_request_id
  left join app.asset a on a.chain = d.chain and a.token = d.token
  join app.chain c on c.chain = d.chain
  left join app.address w on w.chain = d.chain and w.match_key = app.match_key(d.address, c.folds_addresses) and w.address = d.address
  left join app.outgoing_payment s on s.id = r.sweep_id
  left join app.outgoing_payment t on t.id = r.withdrawal_id
  where (not d.credited and (d.merchant_id is not null or a.token is null) or r.decision = 'credit')
    and ($1 or not (r.decision is not distinct from 'credit' or t.outcome is not distinct from 'done'
      or (r.decision is null and (d.status = 'reorged' or app.is_dismissed(d)))))
    and ($2::text is null or d.chain = $2)`

export function addUnattributedCommands(program: Command): void {
  const unattributed = program
    .command('unattributed')
    .description('deposits that no merchant was credited with: list, credit, return, dismiss')

  paged(
    leaf(
      unattributed,
      'list',
      [
        'Lists unattributed deposits, which no merchant was credited with and which you must decide on, the newest first.',
        '',
        'reason: chain_not_requested (the address was not requested on this chain), wrong_token (the payment request is for another token),',
        'enabled_later (the chain was requested after the deposit; that does not credit it), unsupported_token (Sluice can neither credit nor',
        'move the token), protocol (no transaction paid it: block fees, or a validator withdrawal, that name the address).',
      ].join('\n'),
      'sluice unattributed list --chain POLYGON',
    ),
  )
    .option('--chain <code>', 'only this chain', chainCode)
    .option('--all', 'also what was credited, returned, dismissed or lost')
    .action(
      action<PageOptions & {chain?: ChainCode; all?: boolean}>(async ({db}, {chain, all = false, ...of}) => {
        const page = await pageOf<Unattributed>(db, listed, [all, chain], of)
        const {rows, total, next} = page
        return {json: {unattributed: rows, total, next}, text: withTotal(shown(rows, all), page)}
      }),
    )

  leaf(
    unattributed,
    'credit',
    [
      'Credits unattributed deposits to the merchants who own the addresses: all deposits that are named, or none.',
      '',
      "The merchant's balance rises, and the next payout includes the amount. For a user's address the merchant gets the event deposit.confirmed.",
      'For a payment request the merchant gets no event, and the request stays as it is: tell the merchant yourself. A credit cannot be undone.',
    ].join('\n'),
    'sluice unattributed credit dep_0192f3a4b5c67d8e9fa0b1c2d3e4f508',
  )
    .argument('<id...>', 'ids of the deposits')
    .option('--yes', 'do not ask')
    .action(
      action<{yes?: boolean}>(async ({db}, {yes = false}, ids) => {
        const found = await creditable(db, [...new Set(ids.split(','))]) // several arguments are joined with commas
        const amounts = found.map(
          ({amount, token, chain, merchant}) => `  ${amount} ${token} on ${chain} to ${merchant}`,
        )
        await confirm(`This cannot be undone. To be credited:\n${amounts.join('\n')}`, yes)
        await credit(db, found)
        const credited = found.map(({uuid: _, ...deposit}) => deposit)
        return {
          json: {credited},
          text: credited.map(saidOf).join('\n'),
        }
      }),
    )

  leaf(
    unattributed,
    'return',
    [
      "Returns an unattributed deposit to an address on the operator's whitelist, by way of the treasury.",
      '',
      'The network fee of a native coin comes out of its amount, so a little less arrives. You pay all other fees. list shows the progress. Until',
      'it leaves the treasury, the same command with another address changes the destination. If a return failed, the command begins it again.',
    ].join('\n'),
    'sluice unattributed return dep_0192f3a4b5c67d8e9fa0b1c2d3e4f508 --to 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
  )
    .argument('<id>', 'id of the deposit')
    .requiredOption('--to <address>', "an address on the operator's whitelist for the chain")
    .action(
      action<{to: string}>(async (sluice, options, id) => {
        const returned = await giveBack(sluice, id, options.to)
        return {
          json: returned,
          text: `${returned.amount} ${returned.token} are being returned to ${returned.to}; sluice unattributed list shows the progress.`,
        }
      }),
    )

  leaf(
    unattributed,
    'dismiss',
    [
      'Takes unattributed deposits off the list: those that are named, or all of a token that Sluice does not support, also what is still to come.',
      '',
      'Nothing is decided about the money: it can be credited or returned all the same. list --all shows what was dismissed, and --undo puts it back.',
    ].join('\n'),
    'sluice unattributed dismiss dep_0192f3a4b5c67d8e9fa0b1c2d3e4f508\n' +
      'sluice unattributed dismiss --chain POLYGON --token 0x2791Bca1f2de4661ED88A30C99A7a9449Aa84174',
  )
    .argument('[id...]', 'ids of the deposits')
    .option('--chain <code>', 'the chain of --token', chainCode)
    .option('--token <token>', 'all of this token, as the list names it')
    .option('--undo', 'put them back on the list')
    .action(async (...given: unknown[]) => {
      const [ids, {chain, token}, command] = given as [string[], Dismissal, Command]
      if ((chain === undefined) !== (token === undefined) || (token === undefined) === (ids.length === 0))
        command.error('error: give either ids of deposits, or --chain and --token')
      await dismiss(...given)
    })
}

interface Dismissal {
  chain?: ChainCode
  token?: string
  undo?: boolean
}

const dismiss = action<Dismissal>(async ({db}, {chain, token, undo = false}, ids) => {
  if (token !== undefined) return await dismissToken(db, {chain: chain!, token, undo})
  const wanted = [...new Set(ids.split(','))] // several arguments are joined with commas
  const uuids = wanted.map(id => requireId('dep', 'deposit', id))
  if (undo) await db.query('delete from app.dismissed where deposit_id = any($1)', [uuids])
  else await db.query('select app.dismiss_deposit(id) from unnest($1::uuid[]) id', [uuids]) // all of them, or none
  const state = undo ? 'listed again' : 'dismissed'
  return {json: {deposits: wanted, dismissed: !undo}, text: wanted.map(id => `${id} is ${state}.`).join('\n')}
})

async function dismissToken(
  db: pg.Client,
  {chain, token, undo}: {chain: ChainCode; token: string; undo: boolean},
): Promise<Report> {
  const {rows} = await db.query<{count: string}>(
    `select app.${undo ? 'list_token_again' : 'dismiss_token'}($1, $2) as count`,
    [chain, token],
  )
  const deposits = Number(rows[0]!.count)
  const state = undo ? 'are listed again' : 'are dismissed, and so is what is still to come'
  return {json: {chain, token, deposits, dismissed: !undo}, text: `${deposits} of ${token} on ${chain} ${state}.`}
}

function shown(rows: Unattributed[], all: boolean): string {
  return table(
    ['id', 'merchant', 'user', 'payment request', 'chain', 'amount', 'reason', 'status', 'when', 'decision'],
    rows.map(row => [
      row.id,
      row.merchant ?? '(treasury)',
      row.external_ref,
      row.payment_request,
      row.chain,
      row.amount === null ? `${row.amount_base_units} base units of ${row.token}` : `${row.amount} ${row.token}`,
      row.reason,
      row.status,
      moment(row.created_at),
      [row.decision ?? (row.dismissed && 'dismissed'), row.state, row.waiting?.reason].filter(Boolean).join(': '),
    ]),
    all ? 'There were never unattributed deposits.' : 'There are no unattributed deposits to decide on.',
  )
}

interface Credited {
  id: string
  merchant: string
  /** Null if it was paid to a user's address. */
  payment_request: string | null
  chain: string
  token: string
  amount: string
}

function saidOf({id, amount, token, chain, merchant, payment_request: request}: Credited): string {
  const said = `${id}: ${amount} ${token} on ${chain} credited to ${merchant}.`
  return request
    ? `${said} The payment request ${request} stays as it is, and no webhook is sent: tell the merchant yourself.`
    : said
}

type Creditable = Credited & {uuid: string}

/**
 * The deposits with these ids, in the order in which chains are locked. Throws if one of them can never be credited.
 */
async function creditable(db: pg.Client, ids: string[]): Promise<Creditable[]> {
  const wanted = ids.map(id => requireId('dep', 'deposit', id))
  const {rows} = await db.query<Creditable>(
    `select d.id as uuid, app.public_id('dep', d.id) as id, m.prefix as merchant, p.external_id as payment_request, d.chain, d.token,
       app.decimal(d.amount, a.decimals) as amount
     from app.deposit d left join app.merchant m on m.id = d.merchant_id left join app.asset a on a.chain = d.chain and a.token = d.token
     left join app.payment_request p on p.id = d.payment_request_id
     where d.id = any($1) order by d.chain, d.seq`,
    [wanted],
  )
  const known = new Set(rows.map(({uuid}) => uuid.replaceAll('-', '')))
  const missing = wanted.find(id => !known.has(id))
  if (missing)
    throw new PermanentError(
      `there is no deposit dep_${missing}; sluice unattributed list shows what can be credited. Nothing was credited`,
    )
  const unknown = rows.find(({amount}) => amount === null)
  if (unknown) throw await unsupported(db, unknown)
  return rows
}

/** All of them, or none. Each command locks chains in the same order, so two commands never wait for each other. */
async function credit(db: pg.Client, deposits: Creditable[]): Promise<void> {
  await db.query('begin')
  try {
    for (const {uuid} of deposits) await db.query('select app.credit_unattributed($1)', [uuid])
    await db.query('commit')
  } catch (error) {
    await db.query('rollback')
    throw error
  }
}

interface Returned {
  id: string
  chain: string
  token: string
  amount: string
  to: string
}

/**
 * Records the decision; the worker carries it out. Custody checks the whitelist and the limits again before it signs.
 */
async function giveBack(sluice: Sluice, id: string, address: string): Promise<Returned> {
  const {db} = sluice
  const {rows} = await db.query<{uuid: string; chain: ChainCode; token: string; amount: string | null; units: string}>(
    `select d.id as uuid, d.chain, d.token, app.decimal(d.amount, a.decimals) as amount, d.amount::text as units
     from app.deposit d left join app.asset a on a.chain = d.chain and a.token = d.token where d.id = $1`,
    [requireId('dep', 'deposit', id)],
  )
  const [deposit] = rows
  if (!deposit) throw new PermanentError(`there is no deposit ${id}; sluice unattributed list shows what there is`)
  const {uuid, chain, token, amount, units} = deposit
  if (amount === null) throw await unsupported(db, {id, token, chain})
  const to = await foreignAddress(sluice, chain, address, {allowOffCurve: true})
  await requireWhitelisted(db, chain, to)
  const limit = (await settingsWithTokens(sluice, chain)).payoutLimit.get(token)
  if (limit !== undefined && BigInt(units) > limit)
    throw new PermanentError(
      `${amount} ${token} is more than ${chain}_PAYOUT_LIMIT allows at once; raise the limit first`,
    )
  await db.query('select app.return_unattributed($1, $2)', [uuid, to])
  return {id, chain, token, amount, to}
}

/** For a token that Sluice does not support, or that did not count when it arrived. */
async function unsupported(
  db: pg.Client,
  {id, token, chain}: {id: string; token: string; chain: string},
): Promise<PermanentError> {
  const {rows} = await db.query<{token: string; counts: string}>(
    `select token, format('from block %s on', from_height) || coalesce(', up to block ' || until_height, '') as counts
     from app.token where chain = $1 and contract = $2`,
    [chain, token],
  )
  const [added] = rows
  const why = added
    ? `${added.token} counts on ${chain} ${added.counts}, and this came in another block`
    : `Sluice does not support the token ${token} on ${chain}`
  return new PermanentError(
    `${why}: it can neither credit nor move ${id}. You can move it with the seed in a wallet; ` +
      'docs/operations/unattributed.md says how, and what to be careful about',
  )
}
