// sluice incident: events that should never happen, for an operator to decide.
import {type Command, InvalidArgumentError} from 'commander'
import {PermanentError} from '../base/errors.ts'
import {action, leaf, type Sluice, wholeNumber} from './command.ts'
import {facts, moment, table} from './output.ts'
import {type PageOptions, paged, pageOf, withTotal} from './page.ts'

/** What an operator does about the open incidents of a kind and chain. */
export interface WayOut {
  /** Null where they concern no single chain. */
  chain: string | null
  kind: string
  /** The chain is halted. If false, only the chain's payouts are stopped, if there is a chain. */
  halts: boolean
  ids: number[]
  way_out: string
}

interface Incident {
  id: number
  /** Null where it concerns no single chain. */
  chain: string | null
  kind: string
  subject: string
  details: Record<string, unknown>
  opened_at: Date
  resolved_at: Date | null
  resolution: string | null
  /** What resolves it; null where it is resolved. */
  way_out: string | null
}

const select = `
  select i.id::int, i.id as position, i.chain, i.kind, case when i.kind like 'final_deposit_%' then app.public_id('dep', i.subject::uuid) else i.subject end as subject,
    i.details, i.opened_at, i.resolved_at, i.resolution,
    case when i.resolved_at is null then app.fill_way_out(k.way_out, i.chain, array[i.id]) end as way_out
  from app.incident i join app.incident_kind k using (kind)`

interface Transaction {
  chain: string
  txid: string
  fate: string
  /** No block after this one can hold it: a height, or the time of a block. */
  end: string
  /** The outgoing payment. */
  payment: string
  kind: string
  merchant: string | null
  payout: string | null
}

/** When a transaction (custody.journal j) expires on its chain (app.chain k); null where transactions do not. */
export const endOf = `case k.ends_by when 'time' then app.iso(to_timestamp(j.lifetime_end / 1000.0)) else 'block ' || j.lifetime_end end`

/** The transactions, by custody's journal, that an incident about transactions which expire is about. */
const transactions = `
  select j.stream as chain, j.txid, f.fate,
    ${endOf} as "end",
    coalesce(s.id, j.subject_id) as payment, coalesce(s.kind, j.kind) as kind, m.name as merchant, app.public_id('pay', s.payout_id) as payout
  from app.incident i
  join custody.journal j on j.stream = split_part(i.subject, ':', 1)
    and case i.kind when 'unproven_expiry' then j.txid = i.details ->> 'txid' else j.subject_id = (i.details ->> 'payment')::uuid end
  join app.attempt_fate f on f.chain = j.stream and f.seq = j.seq
  join app.chain k on k.chain = j.stream
  left join app.outgoing_payment s on s.id = j.subject_id or (s.payout_id = j.subject_id and s.kind = 'payout')
  left join app.merchant m on m.id = j.merchant_id
  where i.id = $1 and i.kind in ('unproven_expiry', 'contested_payment') order by j.seq`

interface UnknownTransaction {
  chain: string
  txid: string
  /** The block that holds it; null if none does any more. */
  block: number | null
  /** In words. */
  paid: string
  /** What waits to pay the same, in words: sluice custody reconcile enters it. */
  waits: string | null
}

/** The transactions of an incident unknown_transaction. */
const unknownTransactions = `
  select u.chain, u.txid, i.height as block,
    case when u.moved is null then 'not known: look it up in a block explorer'
      else coalesce(custody.paid_in_words(u.chain, u.txid), 'nothing out of our addresses') end as paid,
    custody.paid_again(u.chain, u.txid) as waits
  from app.unknown_transaction u
  left join lateral (select max(c.block_height) as height from chain.confirmed_tx c where c.chain = u.chain and c.txid = u.txid) i on true
  where u.incident_id = $1 order by i.height, u.txid limit 100`

export function addIncidentCommands(program: Command): void {
  const incident = program
    .command('incident')
    .description('incidents: what should never happen and needs your decision')

  paged(
    leaf(
      incident,
      'list',
      'Lists open incidents, the newest first, and what to do about them.',
      'sluice incident list --all',
    ),
  )
    .option('--all', 'also resolved ones')
    .action(
      action<PageOptions & {all?: boolean}>(async ({db}, {all = false, ...of}) => {
        const page = await pageOf<Incident>(db, `${select} where $1 or i.resolved_at is null`, [all], of)
        const {rows, total, next} = page
        const ways = await waysOut(db)
        const list = table(
          ['id', 'chain', 'kind', 'opened', ...(all ? ['resolution'] : []), 'subject', 'seen'],
          rows.map(row => [
            row.id,
            row.chain,
            row.kind,
            moment(row.opened_at),
            ...(all ? [row.resolution ?? 'open'] : []),
            row.subject,
            seen(row),
          ]),
          all ? 'There was never an incident.' : 'There are no open incidents.',
        )
        return {
          json: {incidents: rows, total, next},
          text: [withTotal(list, page), ...ways.map(inWords)].join('\n\n'),
        }
      }),
    )

  leaf(
    incident,
    'show',
    'Shows one incident: everything that was seen, and what to do about it.',
    'sluice incident show 7',
  )
    .argument('<id>', 'number of the incident', wholeNumber)
    .action(
      action(async ({db}, _options, id) => {
        const {rows} = await db.query<Incident>(`${select} where id = $1`, [id])
        const row = rows[0]
        if (!row) throw new PermanentError(`there is no incident ${id}; sluice incident list --all shows them`)
        const about = [
          ...(await db.query<Transaction>(transactions, [id])).rows,
          ...(await db.query<UnknownTransaction>(unknownTransactions, [id])).rows,
        ]
        const {opened_at, resolved_at, details, ...rest} = row
        const shown = Object.entries(details).map(([name, value]) => [
          name,
          typeof value === 'object' ? JSON.stringify(value) : String(value),
        ])
        const text = facts({
          ...rest,
          opened: moment(opened_at),
          resolved: moment(resolved_at),
          ...Object.fromEntries(shown),
        })
        if (!about.length) return {json: row, text}
        return {json: {...row, transactions: about}, text: [text, ...about.map(each => facts({...each}))].join('\n\n')}
      }),
    )

  leaf(
    incident,
    'resolve',
    [
      'Resolves incidents, so that payouts on their chains continue. It resolves all incidents that are named, or none.',
      '',
      'reorged takes a final deposit back: the merchant gets the event deposit.reorged, and the balance falls by the amount. A payout that',
      'collected the deposit fails; if that payout is paying or completed, the merchant owes the amount instead. reorged is refused while the',
      'deposit is on the chain, and until a chain that is being read again has reached its block. kept leaves everything as it is; for an audit it',
      'silences exactly what was found. Custody pays only what is on the chain: after kept, payouts of that merchant wait (exceeds_received) until the',
      'deposit is read again, so kept is for a deposit that will come back.',
      '',
      'loss and debt are for a second payment, which halts its chain. loss leaves it with the operator; with debt the merchant of the payout owes',
      'its net amount. Either way the chain goes on.',
      '',
      'absent is for a transaction that is past its end, and of which it could not be proven that no block holds it: you say that none does, and',
      'the payment may be signed again. Ask several nodes first: if a block holds it after all, it is paid twice. absent is refused while a block',
      'may still hold it, while the chain is halted, and while another transaction of the payment may be in a block.',
      '',
      'Some kinds of incidents need another command, which sluice incident list shows.',
    ].join('\n'),
    'sluice incident resolve 7 8 9 --as kept',
  )
    .argument('<id...>', 'numbers of the incidents', (text: string, before: number[] = []) => [
      ...before,
      wholeNumber(text),
    ])
    .requiredOption('--as <decision>', 'kept, reorged, loss, debt or absent', decision)
    .action(
      action<{as: string}>(async ({db}, options, numbers) => {
        const ids = [...new Set(numbers.split(',').map(Number))] // several arguments are joined with commas
        await resolve(db, ids, options.as)
        const which = ids.length === 1 ? `Incident ${ids} is` : `Incidents ${ids.join(', ')} are`
        return {json: {ids, resolution: options.as}, text: `${which} resolved: ${options.as}.`}
      }),
    )
}

/** All of them, or none. */
async function resolve(db: Sluice['db'], ids: number[], as: string): Promise<void> {
  const {rows} = await db.query<Pick<Incident, 'id' | 'resolution'>>(
    'select id::int, resolution from app.incident where id = any($1) order by chain, id',
    [ids],
  )
  const nothing = ids.length > 1 ? '. Nothing was resolved' : ''
  const missing = ids.find(id => !rows.some(row => row.id === id))
  if (missing !== undefined)
    throw new PermanentError(`there is no incident ${missing}; sluice incident list --all shows them${nothing}`)
  const over = rows.find(row => row.resolution)
  if (over) throw new PermanentError(`incident ${over.id} is resolved already (${over.resolution})${nothing}`)
  await db.query('begin')
  try {
    // Taking a deposit back resolves all its incidents.
    for (const {id} of rows)
      await db.query('select app.resolve_incident(id, $2) from app.incident where id = $1 and resolved_at is null', [
        id,
        as,
      ])
    await db.query('commit')
  } catch (error) {
    await db.query('rollback')
    throw nothing ? new PermanentError(`${(error as Error).message}${nothing}`, {cause: error}) : error
  }
}

/** What to do about each kind of open incident. Kinds that halt a chain come first. */
export async function waysOut(db: Sluice['db']): Promise<WayOut[]> {
  const {rows} = await db.query<WayOut>(
    'select chain, kind, halts, ids::int[], way_out from app.open_incident order by halts desc, chain, ids',
  )
  return rows
}

/** One paragraph: which incidents, and what to do. */
export function inWords({chain, kind, ids, way_out}: WayOut): string {
  const which = ids.length === 1 ? `Incident ${ids}` : `${ids.length} incidents, from ${ids[0]} on`
  return `${which} (${kind}${chain ? `, ${chain}` : ''}): ${way_out}.`
}

function seen({details}: Incident): string {
  return Object.entries(details)
    .filter(([name]) => !['transfer', 'block_hash', 'found'].includes(name)) // with --json they are there
    .map(([name, value]) => `${name}=${value}`)
    .join(' ')
}

function decision(text: string): string {
  if (!['kept', 'reorged', 'loss', 'debt', 'absent'].includes(text))
    throw new InvalidArgumentError('it must be kept, reorged, loss, debt or absent.')
  return text
}
