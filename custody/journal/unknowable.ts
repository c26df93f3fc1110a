// What sluice custody reconcile says where custody's journal may lack signatures: what was recognised on the chains,
// what was not, and what no chain shows.
import type pg from 'pg'
import type {Found, Unknown} from './found.ts'

const mostShown = 20

export function foundInWords({entered, left}: Found): string[] {
  return [
    ...(entered.length ? ['Recognised on the chains, and entered in the journal:'] : []),
    ...entered.map(one => `  ${named(one)}: ${one.what}${one.paid === null ? '' : `, ${one.paid}`}`),
    ...(left.length ? ['Not recognised; sluice incident list says what to do:'] : []),
    ...left.map(one => `  ${named(one)} (incident ${one.incident}): ${whyNot(one)}`),
  ]
}

const named = ({chain, txid}: Unknown) => `${chain} ${txid}`

function whyNot({isFinal, paid, why}: Found['left'][number]): string {
  if (!isFinal) return 'it is in no final block yet; run this again when it is'
  return why ?? paid ?? 'it took nothing out of our addresses'
}

interface Waiting {
  id: string
  chain: string
  net: string
  token: string
  address: string
  merchant: string
}

/** Nothing once it does not matter any more. `mark`: when and why the journal was found incomplete. */
export async function unknowable(client: pg.Client, mark: string): Promise<string[]> {
  const {rows: unproven} = await client.query<{chain: string; why: string}>(
    `select u.chain, custody.why_unproven(u) as why from custody.unproven_copy u join chain.configured g using (chain) where u.proven_at is null order by u.chain`,
  )
  const {rows: waiting} = await client.query<Waiting>(
    `select app.public_id('pay', p.id) as id, p.chain, app.decimal(p.net, a.decimals) as net, p.token, p.address, m.name as merchant
     from app.payout p join app.asset a using (chain, token) join app.merchant m on m.id = p.merchant_id join custody.unproven_copy u on u.chain = p.chain
     where p.status in ('pending', 'sweeping', 'swept') and p.created_at < u.noted_at
       and not exists (select from app.attempt_fate f where f.chain = p.chain and f.subject_id = p.id and f.fate <> 'dead')
     order by p.chain, p.created_at`,
  )
  if (!unproven.length && !waiting.length) return []
  return [
    `The journal may lack signatures (${mark}). What was signed and is in no block is known nowhere, and may still be mined.`,
    ...unproven.map(({chain, why}) => `  ${chain}: ${why}`),
    ...(waiting.length
      ? [
          'These payouts wait, and no block has paid them. Before you start the jobs, ask several nodes for transactions of the treasury that wait for a block, ' +
            'and cancel those that one of them pays (docs/operations/from-the-words.md):',
        ]
      : []),
    ...waiting
      .slice(0, mostShown)
      .map(
        ({id, chain, net, token, address, merchant}) =>
          `  ${id}: ${net} ${token} on ${chain} to ${address}, for ${merchant}`,
      ),
    ...(waiting.length > mostShown ? [`  and ${waiting.length - mostShown} more: sluice payout list`] : []),
  ]
}
