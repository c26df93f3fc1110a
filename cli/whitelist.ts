// sluice whitelist: where money may go. Custody signs a payout only to an address on its merchant's list, and a
// withdrawal only to an address on the operator's list.
import type {Command} from 'commander'
import type pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import type {ChainCode} from '../chains/registry.ts'
import {action, chainCode, foreignAddress, leaf, wholeNumber} from './command.ts'
import {findMerchant, merchantOption} from './merchant.ts'
import {moment, table} from './output.ts'

interface Owner {
  merchant?: string
  operator?: boolean
}
interface Entry extends Owner {
  chain: ChainCode
  address: string
}

const operatorOption = ['--operator', "the operator's own list, for sluice treasury withdraw"] as const
const chainOption = ['--chain <code>', 'the chain', chainCode] as const
const addressOption = [
  '--address <address>',
  'the address; on Ethereum and Polygon mixed case is checked (EIP-55)',
] as const

export function addWhitelistCommands(program: Command): void {
  const whitelist = program
    .command('whitelist')
    .description('addresses that payouts and withdrawals may go to, for each merchant and chain')

  leaf(
    whitelist,
    'add',
    [
      'Allows payouts of a merchant to an address; with --operator, withdrawals from the treasury to it.',
      '',
      'An entry counts only for its merchant and its chain. First ask the merchant, not through the API, whether the address is theirs.',
    ].join('\n'),
    'sluice whitelist add --merchant acme --chain ETH --address 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed --wait-hours 24',
  )
    .option(...merchantOption)
    .option(...operatorOption)
    .requiredOption(...chainOption)
    .requiredOption(...addressOption)
    .option(
      '--allow-off-curve',
      'on Solana: the address is no point of the curve, and meant, such as the vault of a multisignature wallet',
    )
    .option('--wait-hours <number>', 'hours until the entry counts', wholeNumber, 0)
    .action(
      action<Entry & {waitHours: number; allowOffCurve?: boolean}>(async (sluice, options) => {
        const {db} = sluice
        const {chain, waitHours, allowOffCurve} = options
        const owner = await ownerOf(db, options)
        const address = await foreignAddress(sluice, chain, options.address, {allowOffCurve: allowOffCurve === true})
        await db.query(
          `insert into custody.whitelist (merchant_id, chain, address, active_at)
           values ($1, $2, $3, clock_timestamp() + make_interval(hours => $4)) on conflict do nothing`,
          [owner.id, chain, address, waitHours],
        )
        const {rows} = await db.query<{active_at: Date; waits: boolean}>(
          `select active_at, active_at > clock_timestamp() as waits from custody.whitelist
           where merchant_id is not distinct from $1 and chain = $2 and address = $3 and removed_at is null`,
          [owner.id, chain, address],
        )
        const {active_at, waits} = rows[0]!
        return {
          json: {merchant: owner.publicId, chain, address, active_at},
          text: `${address} is on the list of ${owner.name} for ${chain}${waits ? `, and counts from ${moment(active_at)} on` : ''}.`,
        }
      }),
    )

  leaf(
    whitelist,
    'list',
    'Lists the addresses that payouts and withdrawals may go to.',
    'sluice whitelist list --merchant acme',
  )
    .option(...merchantOption)
    .option(...operatorOption)
    .option('--all', 'also removed entries')
    .action(
      action<Owner & {all?: boolean}>(async ({db}, {all = false, ...options}) => {
        const owner = options.merchant || options.operator ? await ownerOf(db, options) : undefined
        const {rows} = await db.query(
          `select app.public_id('mer', w.merchant_id) as merchant, m.prefix, w.chain, w.address, w.added_at, w.active_at, w.removed_at
           from custody.whitelist w left join app.merchant m on m.id = w.merchant_id
           where ($1 or w.removed_at is null) and ($2 or w.merchant_id is not distinct from $3)
           order by m.prefix nulls first, w.chain, w.id`,
          [all, !owner, owner?.id],
        )
        return {
          json: {entries: rows.map(({prefix: _, ...entry}) => entry)},
          text: table(
            ['merchant', 'chain', 'address', 'counts from', ...(all ? ['removed'] : [])],
            rows.map(row => [
              row.prefix ?? '(operator)',
              row.chain,
              row.address,
              moment(row.active_at),
              ...(all ? [moment(row.removed_at)] : []),
            ]),
            'The list is empty: custody signs no payout.',
          ),
        }
      }),
    )

  leaf(
    whitelist,
    'remove',
    [
      'Removes an address from the list: from now on custody signs nothing new to it.',
      '',
      'A payment that is signed already continues; to stop it, use sluice payout cancel.',
    ].join('\n'),
    'sluice whitelist remove --merchant acme --chain ETH --address 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
  )
    .option(...merchantOption)
    .option(...operatorOption)
    .requiredOption(...chainOption)
    .requiredOption(...addressOption)
    .action(
      action<Entry>(async ({db}, options) => {
        const {chain} = options
        const owner = await ownerOf(db, options)
        const {rows} = await db.query<{address: string}>(
          `update custody.whitelist set removed_at = clock_timestamp()
           where merchant_id is not distinct from $1 and chain = $2 and lower(address) = lower($3) and removed_at is null returning address`,
          [owner.id, chain, options.address],
        )
        if (!rows[0])
          throw new PermanentError(
            `${options.address} is not on the list of ${owner.name} for ${chain}; sluice whitelist list shows the entries`,
          )
        const {address} = rows[0]
        return {
          json: {merchant: owner.publicId, chain, address, removed: true},
          text: `${address} is off the list of ${owner.name} for ${chain}.`,
        }
      }),
    )
}

/** The owner of the list. Throws unless exactly one was given. */
async function ownerOf(
  db: pg.Client,
  {merchant, operator}: Owner,
): Promise<{id: string | null; publicId: string | null; name: string}> {
  if ((merchant === undefined) === (operator === undefined))
    throw new PermanentError('give the owner of the list: either --merchant <id-or-prefix> or --operator')
  if (merchant === undefined) return {id: null, publicId: null, name: 'the operator'}
  const {id, publicId, prefix} = await findMerchant(db, merchant)
  return {id, publicId, name: prefix}
}

/**
 * Throws unless withdrawals may go to this address now. Custody checks, too, but after the nonce is taken: its refusal
 * blocks later transactions.
 */
export async function requireWhitelisted(db: pg.Client, chain: string, address: string): Promise<void> {
  const {rows} = await db.query<{active_at: Date; waits: boolean}>(
    `select active_at, active_at > clock_timestamp() as waits from custody.whitelist
     where merchant_id is null and chain = $1 and address = $2 and removed_at is null`,
    [chain, address],
  )
  if (!rows[0])
    throw new PermanentError(
      `${address} is not on the operator's whitelist; to add it, run sluice whitelist add --operator --chain ${chain} --address ${address}`,
    )
  if (rows[0].waits)
    throw new PermanentError(
      `${address} is on the operator's whitelist, but counts only from ${moment(rows[0].active_at)} on`,
    )
}
