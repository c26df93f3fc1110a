// sluice treasury: what the treasuries hold and whose it is, and withdrawals of the operator's own money.
import type {Command} from 'commander'
import type pg from 'pg'
import type {ChainCode} from '../chains/registry.ts'
import {PermanentError} from '../service/errors.ts'
import type {EvmSettings} from '../service/settings.ts'
import {action, baseUnits, chainCode, foreignAddress, leaf, requireAsset, settingsOf} from './command.ts'
import {moment, table} from './output.ts'

/** More than a transfer of any asset needs; what the transaction does not use is never paid. */
const WITHDRAWAL_GAS = 100_000n

export interface Treasury {
  chain: string
  address: string | null
  token: string
  balance: string
  reserved: string
  operator: string
  merchants: string
}

interface Withdrawal {
  id: string
  chain: string
  token: string
  amount: string
  to: string
  status: string
  waiting_reason: string | null
  txid: string | null
  created_at: string
}

export function addTreasuryCommands(program: Command): void {
  const treasury = program.command('treasury').description('the treasuries: what they hold, and whose it is')

  leaf(
    treasury,
    'show',
    [
      'Shows what each treasury holds, and whose it is.',
      '',
      'operator is your own money that is not promised to anything: fees earned and top-ups, less network fees and what was advanced to',
      'merchants. Top it up by sending to the address.',
    ].join('\n'),
    'sluice treasury show',
  ).action(
    action(async ({db}) => {
      const treasuries = await treasuriesOf(db)
      const withdrawals = await openWithdrawals(db)
      const holdings = table(
        ['chain', 'token', 'holds', 'reserved', 'operator', "merchants'", 'address'],
        treasuries.map(row => [
          row.chain,
          row.token,
          row.balance,
          row.reserved,
          row.operator,
          row.merchants,
          row.address,
        ]),
        'There is no treasury yet: custody makes it at its first start.',
      )
      const underWay = table(
        ['withdrawal', 'chain', 'amount', 'to', 'state', 'since'],
        withdrawals.map(row => [
          row.id,
          row.chain,
          `${row.amount} ${row.token}`,
          row.to,
          row.waiting_reason ?? row.status,
          moment(row.created_at),
        ]),
        'No withdrawal is under way.',
      )
      return {json: {treasuries, withdrawals}, text: [holdings, underWay].join('\n\n')}
    }),
  )

  leaf(
    treasury,
    'withdraw',
    "Sends the operator's own money to an address on the operator's whitelist; never what belongs to merchants.",
    'sluice treasury withdraw --chain ETH --token USDC --amount 12.5 --to 0x52908400098527886E0F7030069857D2E4169EE7',
  )
    .requiredOption('--chain <code>', 'the chain', chainCode)
    .requiredOption('--token <code>', 'the token')
    .requiredOption('--amount <amount>', 'in whole coins, such as 1.5')
    .requiredOption('--to <address>', "an address on the operator's whitelist")
    .action(
      action<{chain: ChainCode; token: string; amount: string; to: string}>(
        async ({db, service}, {chain, ...options}) => {
          const asset = requireAsset(chain, options.token)
          const amount = baseUnits(asset, options.amount)
          const to = await foreignAddress(db, chain, options.to)
          await requireWhitelisted(db, chain, to)
          const settings = settingsOf(service, chain)
          const limit = settings.payoutLimit.get(asset.token)
          if (limit !== undefined && amount > limit)
            throw new PermanentError(
              `${options.amount} ${asset.token} are more than ${chain}_PAYOUT_LIMIT allows at once`,
            )
          const withdrawal = {chain, token: asset.token, amount, to}
          const id =
            settings.family === 'bitcoin'
              ? await (await import('./withdraw-outputs.ts')).beginWithdrawal(db, settings, withdrawal)
              : await beginWithdrawal(db, settings, withdrawal)
          return {
            json: {id, chain, token: asset.token, amount: options.amount, to},
            text: `${options.amount} ${asset.token} are on their way to ${to}; sluice treasury show lists it until it is final.`,
          }
        },
      ),
    )

  leaf(
    treasury,
    'cancel',
    [
      'Gives up a withdrawal that is under way: a transaction that moves nothing takes its place.',
      '',
      'On EVM chains one that custody refuses holds up every later transaction of the treasury, until it is signed or cancelled.',
    ].join('\n'),
    'sluice treasury cancel 0192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f508',
  )
    .argument('<id>', 'id of the withdrawal')
    .action(
      action(async ({db}, _options, id) => {
        await cancelWithdrawal(db, id)
        return {json: {id, cancelling: true}, text: `Withdrawal ${id} is cancelled, unless it is mined before.`}
      }),
    )
}

/** Begun; its id. Custody asks the whitelist again, and the limits. */
async function beginWithdrawal(
  db: pg.Client,
  {maxFeePerGas}: EvmSettings,
  {chain, token, amount, to}: {chain: ChainCode; token: string; amount: bigint; to: string},
): Promise<string> {
  const {rows} = await db.query<{id: string}>('select app.begin_withdrawal($1, $2, $3, $4, $5) as id', [
    chain,
    token,
    amount.toString(),
    to,
    (WITHDRAWAL_GAS * maxFeePerGas).toString(),
  ])
  return rows[0]!.id
}

export async function treasuriesOf(db: pg.Client): Promise<Treasury[]> {
  const {rows} = await db.query<Treasury>(
    `select a.chain, app.treasury_address(a.chain) as address, a.token,
       app.decimal(coalesce(t.balance, 0), a.decimals) as balance, app.decimal(coalesce(t.reserved, 0), a.decimals) as reserved,
       app.decimal(app.operator_funds(a.chain, a.token), a.decimals) as operator,
       app.decimal(coalesce((select sum(s.amount) from app.treasury_share s where s.chain = a.chain and s.token = a.token and s.amount > 0), 0),
         a.decimals) as merchants
     from app.asset a left join app.treasury t using (chain, token)
     where app.treasury_address(a.chain) is not null order by a.chain, a.token`,
  )
  return rows
}

/** A cancel may come too late: whichever of the two is mined counts. */
async function cancelWithdrawal(db: pg.Client, id: string): Promise<void> {
  const {rowCount} = await db.query(
    `select app.cancel_spend(id) from app.spend where id::text = $1 and kind = 'withdrawal' and status <> 'final'`,
    [id],
  )
  if (!rowCount) throw new PermanentError(`no withdrawal ${id} is under way; sluice treasury show lists those that are`)
}

async function openWithdrawals(db: pg.Client): Promise<Withdrawal[]> {
  const {rows} = await db.query<Withdrawal>(
    `select s.id, s.chain, s.token, app.decimal(s.amount, a.decimals) as amount, s.recipient as "to", s.status, s.waiting_reason,
       (select o.txid from app.outbound_tx o where o.spend_id = s.id order by o.attempt desc limit 1) as txid, app.iso(s.created_at) as created_at
     from app.spend s join app.asset a using (chain, token) where s.kind = 'withdrawal' and s.status <> 'final' order by s.created_at`,
  )
  return rows
}

// Custody checks it, too, and the limits. But what it refuses has taken a nonce by then, and everything after it would wait.
async function requireWhitelisted(db: pg.Client, chain: string, address: string): Promise<void> {
  const {rows} = await db.query<{active_at: Date; waits: boolean}>(
    `select active_at, active_at > clock_timestamp() as waits from custody.whitelist
     where merchant_id is null and chain = $1 and address = $2 and removed_at is null`,
    [chain, address],
  )
  if (!rows[0])
    throw new PermanentError(
      `${address} is not on the operator's whitelist; sluice whitelist add --operator --chain ${chain} --address ${address}`,
    )
  if (rows[0].waits)
    throw new PermanentError(
      `${address} is on the operator's whitelist, and counts from ${moment(rows[0].active_at)} on`,
    )
}
