// sluice merchant: merchant accounts, and the chains that they may use.
import {type Command, InvalidArgumentError, Option} from 'commander'
import type pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import {basisPoints, percent} from '../base/percent.ts'
import {type ChainCode, chains} from '../chains/registry.ts'
import {action, chainList, leaf, parseId, wholeNumber} from './command.ts'
import {moment, table} from './output.ts'
import {unfollowed} from './unfollowed.ts'

export interface Merchant {
  /** UUID. */
  id: string
  /** mer_... */
  publicId: string
  prefix: string
  name: string
}

/** The merchant with this id or prefix. */
export async function findMerchant(db: pg.Client, idOrPrefix: string): Promise<Merchant> {
  const {rows} = await db.query<Merchant>(
    `select id, app.public_id('mer', id) as "publicId", prefix, name from app.merchant where id = $1::uuid or prefix = $2`,
    [parseId('mer', idOrPrefix), idOrPrefix],
  )
  if (!rows[0]) throw new PermanentError(`there is no merchant "${idOrPrefix}"; sluice merchant list shows all`)
  return rows[0]
}

interface Changes {
  merchant: string
  name?: string
  feeBps?: number
  cancelsPerDay?: number
  /** In basis points. */
  paymentTolerance?: number
}

function tolerance(text: string): number {
  const bps = basisPoints(text)
  if (bps === undefined)
    throw new InvalidArgumentError('it must be a percentage with at most two decimals, such as 0.5%.')
  return bps
}

export const merchantOption = ['--merchant <id-or-prefix>', 'the merchant, by id or prefix'] as const

export function addMerchantCommands(program: Command): void {
  const merchant = program.command('merchant').description('merchant accounts, and the chains that they may use')
  const runnable = chains.map(chain => chain.code)

  leaf(
    merchant,
    'create',
    'Makes a merchant account. To make its API key, use sluice key create.',
    'sluice merchant create --name "Acme Games" --prefix acme --chains ETH,POLYGON --fee-bps 50',
  )
    .requiredOption('--name <name>', 'display name')
    .requiredOption('--prefix <prefix>', '2 to 12 lower-case letters and digits, unique; it can never be changed')
    .addOption(
      new Option('--chains <codes>', 'chains that the merchant may use, separated by commas')
        .argParser(chainList)
        .default(runnable, runnable.join(',')),
    )
    .option('--fee-bps <number>', 'service fee in basis points: 50 is 0.5 %', wholeNumber, 0)
    .action(
      action<{name: string; prefix: string; chains: ChainCode[]; feeBps: number}>(async (sluice, options) => {
        const {db} = sluice
        const {name, prefix, chains, feeBps} = options
        const {rows} = await db.query<{id: string}>(
          `select app.public_id('mer', app.create_merchant($1, $2, $3, $4)) as id`,
          [name, prefix, chains, feeBps],
        )
        const {id} = rows[0]!
        const made = `Made merchant ${prefix} (${id}) with ${chains.join(', ')}.`
        const missing = await unfollowed(sluice, chains)
        if (!missing.length) return {json: {id, prefix}, text: made}
        const warning =
          `Warning: no process follows ${missing.join(', ')}, so what is paid there is not seen. Name their nodes (docs/operations.md), ` +
          `or run sluice merchant disable-chain --merchant ${prefix} --chains ${missing.join(',')}`
        return {json: {id, prefix, not_followed: missing}, text: `${made}\n${warning}`}
      }),
    )

  leaf(merchant, 'list', 'Lists all merchants.', 'sluice merchant list').action(
    action(async ({db}) => {
      const {rows} = await db.query<{
        id: string
        prefix: string
        name: string
        fee_bps: number
        chains: string[]
        created_at: Date
        suspended_at: Date | null
      }>(
        `select app.public_id('mer', id) as id, prefix, name, fee_bps, created_at, suspended_at,
           array(select chain from app.merchant_chain c where c.merchant_id = m.id and c.enabled order by chain) as chains
         from app.merchant m order by created_at, id`,
      )
      return {
        json: {merchants: rows},
        text: table(
          ['prefix', 'name', 'chains', 'fee bps', 'since', 'suspended', 'id'],
          rows.map(({prefix, name, chains, fee_bps, created_at, suspended_at, id}) => [
            prefix,
            name,
            chains.join(','),
            fee_bps,
            moment(created_at),
            moment(suspended_at),
            id,
          ]),
          'There are no merchants yet; sluice merchant create makes one.',
        ),
      }
    }),
  )

  leaf(
    merchant,
    'update',
    [
      'Changes the name or the fee of a merchant, how often it may cancel, or how much of its payment requests may be missing. Payouts that exist already keep',
      'their fee, and payment requests their tolerance.',
      '',
      '--cancels-per-day is about payouts that have begun to sweep, because each sweep costs you a network fee; it is 20 for a new merchant. A payout',
      'that is still pending can always be cancelled.',
    ].join('\n'),
    'sluice merchant update --merchant acme --fee-bps 75',
  )
    .requiredOption(...merchantOption)
    .option('--name <name>', 'display name')
    .option('--fee-bps <number>', 'service fee in basis points: 50 is 0.5 %', wholeNumber)
    .option('--cancels-per-day <number>', 'payouts that have begun, and may be cancelled within a day', wholeNumber)
    .option(
      '--payment-tolerance <percent>',
      'how much of a new payment request may be missing, such as 0.5%',
      tolerance,
    )
    .action(
      action<Changes>(async ({db}, options) => {
        const {name: newName, feeBps, cancelsPerDay, paymentTolerance} = options
        if ([newName, feeBps, cancelsPerDay, paymentTolerance].every(change => change === undefined))
          throw new PermanentError(
            'nothing to change; give --name, --fee-bps, --cancels-per-day or --payment-tolerance',
          )
        const {id, publicId, prefix} = await findMerchant(db, options.merchant)
        await db.query('begin') // ended with the connection if something is refused
        await db.query('select app.update_merchant($1, $2, $3)', [id, newName, feeBps])
        if (cancelsPerDay !== undefined) await db.query('select app.set_cancels_per_day($1, $2)', [id, cancelsPerDay])
        if (paymentTolerance !== undefined)
          await db.query('select app.set_payment_tolerance($1, $2)', [id, paymentTolerance])
        await db.query('commit')
        const {rows} = await db.query<{
          name: string
          fee_bps: number
          cancels_per_day: number
          payment_tolerance_bps: number
        }>('select name, fee_bps, cancels_per_day, payment_tolerance_bps from app.merchant where id = $1', [id])
        const {name, fee_bps, cancels_per_day, payment_tolerance_bps} = rows[0]!
        return {
          json: {id: publicId, prefix, name, fee_bps, cancels_per_day, payment_tolerance_bps},
          text:
            `Merchant ${prefix} is "${name}", with a fee of ${fee_bps} basis points. ` +
            `Within a day, it may cancel ${cancels_per_day} payouts that have begun. ` +
            `Of a new payment request, ${percent(payment_tolerance_bps)} may be missing.`,
        }
      }),
    )

  for (const suspend of [true, false]) {
    const verb = suspend ? 'suspend' : 'resume'
    leaf(
      merchant,
      verb,
      suspend
        ? 'Blocks all API keys of a merchant, at once. Deposits are still credited, open payouts finish, webhooks are delivered.'
        : 'Unblocks the API keys of a suspended merchant. Revoked keys stay revoked.',
      `sluice merchant ${verb} --merchant acme`,
    )
      .requiredOption(...merchantOption)
      .action(
        action<{merchant: string}>(async ({db}, options) => {
          const {id, publicId, prefix} = await findMerchant(db, options.merchant)
          await db.query('select app.set_merchant_suspended($1, $2)', [id, suspend])
          return {
            json: {id: publicId, prefix, suspended: suspend},
            text: suspend
              ? `No key of merchant ${prefix} works now; to undo this, run sluice merchant resume --merchant ${prefix}.`
              : `The keys of merchant ${prefix} work again.`,
          }
        }),
      )
  }

  for (const enable of [true, false]) {
    const verb = enable ? 'enable' : 'disable'
    leaf(
      merchant,
      `${verb}-chain`,
      enable
        ? 'Lets a merchant use a chain.'
        : 'Stops new addresses for a merchant on a chain. Existing addresses stay watched, and their deposits count.',
      `sluice merchant ${verb}-chain --merchant acme --chain POLYGON`,
    )
      .requiredOption(...merchantOption)
      .requiredOption('--chain, --chains <codes>', 'chains, separated by commas', chainList)
      .action(
        action<{merchant: string; chains: ChainCode[]}>(async ({db}, options) => {
          const {id, publicId, prefix} = await findMerchant(db, options.merchant)
          await db.query('select app.set_merchant_chain($1, chain, $3) from unnest($2::text[]) as c (chain)', [
            id,
            options.chains,
            enable,
          ])
          const {rows} = await db.query<{chain: string}>(
            'select chain from app.merchant_chain where merchant_id = $1 and enabled order by chain',
            [id],
          )
          const enabled = rows.map(row => row.chain)
          return {
            json: {id: publicId, prefix, chains: enabled},
            text: `Merchant ${prefix} may use ${enabled.join(', ') || 'no chain'} now.`,
          }
        }),
      )
  }
}
