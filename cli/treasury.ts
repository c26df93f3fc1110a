// sluice treasury: what the treasuries hold and who owns it, withdrawals of the operator's own money, what it stakes,
// and CPFP.
import {type Command, Option} from 'commander'
import type pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import type {ChainCode} from '../chains/registry.ts'
import {payoutFamilyOf} from '../jobs/payouts/families.ts'
import {
  action,
  baseUnits,
  chainCode,
  feeRate,
  foreignAddress,
  leaf,
  requireAsset,
  requireFollowed,
  settingsOf,
  settingsWithTokens,
  transactionId,
} from './command.ts'
import {moment, table} from './output.ts'
import {requireWhitelisted} from './whitelist.ts'

const shownAtMost = 200

export interface Treasury {
  chain: string
  address: string | null
  token: string
  balance: string
  reserved: string
  operator: string
  merchants: string
  gas_on_addresses: string
}

interface Withdrawal {
  id: string
  kind: 'withdrawal' | 'stake' | 'unstake' | 'reclaim' | 'cpfp' | 'return'
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
  const treasury = program
    .command('treasury')
    .description(
      "the treasuries: what they hold, what is held back, withdrawals of the operator's own money, stakes, CPFP",
    )

  leaf(
    treasury,
    'show',
    [
      'Shows what each treasury holds, how much of it belongs to merchants and how much to the operator, and open withdrawals.',
      '',
      'operator is your own money that is free: fees earned and top-ups, less network fees and what was advanced to merchants. To top a treasury',
      'up, send to its address. "gas" is yours, too: coins that the treasury sent deposit addresses for their sweeps of tokens, and that are left there.',
      'On Tron it also shows what is staked for energy, and what the sweep of a token costs by each way.',
    ].join('\n'),
    'sluice treasury show',
  ).action(
    action(async ({db}) => {
      const treasuries = await treasuriesOf(db)
      const withdrawals = await openWithdrawals(db)
      const holdings = table(
        ['chain', 'token', 'holds', 'reserved', 'operator', "merchants'", 'gas', 'address'],
        treasuries.map(t => [
          t.chain,
          t.token,
          t.balance,
          t.reserved,
          t.operator,
          t.merchants,
          t.gas_on_addresses,
          t.address,
        ]),
        'There is no treasury yet: custody makes them at its first start.',
      )
      const underWay = table(
        ['withdrawal', 'kind', 'chain', 'amount', 'to', 'state', 'since'],
        withdrawals.map(row => [
          row.id,
          row.kind,
          row.chain,
          `${row.amount} ${row.token}`,
          row.to,
          row.waiting_reason ?? row.status,
          moment(row.created_at),
        ]),
        'No withdrawal is under way.',
      )
      const {stakes, sweep_costs} = await stakesOf(db)
      const text = [holdings, underWay, ...stakeTables({stakes, sweep_costs})].join('\n\n')
      return {json: {treasuries, withdrawals, stakes, sweep_costs}, text}
    }),
  )

  leaf(
    treasury,
    'held-back',
    [
      `Lists addresses whose final deposits no payout collects yet, because what they hold is not worth a sweep; the largest first, ${shownAtMost} at most.`,
      '',
      'It is in gross and held_back of the balance of the merchant. The minimum is <CHAIN>_SWEEP_MIN; missing is what must still arrive at the address.',
      'A lower minimum counts from the next npm start, or sluice migrate. On BTC each output is compared by itself: only a lower minimum, or a payment that',
      'spends it all the same because fees are low, ends that it is held back.',
    ].join('\n'),
    'sluice treasury held-back --chain ETH',
  )
    .option('--chain <code>', 'only this chain', chainCode)
    .action(
      action<{chain?: ChainCode}>(async ({db}, {chain}) => {
        const rows = await heldBack(db, chain)
        return {
          json: {held_back: rows},
          text: table(
            ['chain', 'token', 'merchant', 'held back', 'deposits', 'minimum', 'missing', 'address'],
            rows.map(r => [r.chain, r.token, r.merchant, r.held_back, r.deposits, r.minimum, r.missing, r.address]),
            'Nothing is held back.',
          ),
        }
      }),
    )

  leaf(
    treasury,
    'withdraw',
    "Sends the operator's own money to an address on the operator's whitelist. It never sends merchants' money.",
    'sluice treasury withdraw --chain ETH --token USDC --amount 12.5 --to 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
  )
    .requiredOption('--chain <code>', 'the chain', chainCode)
    .requiredOption('--token <code>', 'the token')
    .requiredOption('--amount <amount>', 'in whole coins, such as 1.5')
    .requiredOption('--to <address>', "an address on the operator's whitelist")
    .action(
      action<{chain: ChainCode; token: string; amount: string; to: string}>(async (sluice, {chain, ...options}) => {
        const {db, service} = sluice
        const settings = await settingsWithTokens(sluice, chain)
        const asset = requireAsset(settings, options.token)
        const amount = baseUnits(asset, options.amount)
        const to = await foreignAddress(sluice, chain, options.to, {allowOffCurve: true})
        await requireWhitelisted(db, chain, to)
        const limit = settings.payoutLimit.get(asset.token)
        if (limit !== undefined && amount > limit)
          throw new PermanentError(
            `${options.amount} ${asset.token} is more than ${chain}_PAYOUT_LIMIT allows at once; withdraw less, or raise the limit`,
          )
        requireFollowed(service, chain)
        const family = await payoutFamilyOf(settings)
        const id = await family.beginWithdrawal(db, settings, {token: asset.token, amount, to})
        return {
          json: {id, chain, token: asset.token, amount: options.amount, to},
          text: `${options.amount} ${asset.token} are on their way to ${to}; sluice treasury show lists it until it is final.`,
        }
      }),
    )

  addStaking(treasury, 'stake')
  addStaking(treasury, 'unstake')

  leaf(
    treasury,
    'recount-stake',
    [
      'Books what the treasury has staked by what the node says.',
      '',
      "For a restore from a copy of the database that is older than a stake, without custody's journal: nothing here knows of the stake then, and takes",
      'it for coins that can be paid out. It changes nothing on the chain.',
    ].join('\n'),
    'sluice treasury recount-stake --chain TRON',
  )
    .requiredOption('--chain <code>', 'the chain', chainCode)
    .action(
      action<{chain: ChainCode}>(async ({db, service}, {chain}) => {
        const settings = settingsOf(service, chain)
        const {recountStake} = await payoutFamilyOf(settings)
        if (!recountStake) throw new PermanentError(`nothing is staked on ${chain}; energy is for Tron`)
        requireFollowed(service, chain)
        const booked = await recountStake(db, settings)
        const text = booked.length
          ? `Booked: ${booked.join(', ')}.`
          : 'The ledger has what the node says; nothing was booked.'
        return {json: {chain, booked}, text}
      }),
    )

  leaf(
    treasury,
    'cpfp',
    [
      'Speeds up an unconfirmed incoming Bitcoin payment with a child transaction (CPFP).',
      '',
      'The child spends what the transaction pays to us (to one merchant, or to the treasury) to the treasury. Its fee brings both transactions',
      'together to the fee rate; you pay it from your own money. The deposit counts when it is final, as without the child. Our own transactions',
      'need no CPFP: Sluice raises their fee automatically (RBF).',
    ].join('\n'),
    'sluice treasury cpfp --chain BTC --txid 4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b --fee-rate 12',
  )
    .requiredOption('--chain <code>', 'the chain', chainCode)
    .requiredOption('--txid <txid>', 'the unconfirmed transaction', transactionId)
    .requiredOption('--fee-rate <rate>', 'fee rate of both transactions together, in sat/vB', feeRate)
    .action(
      action<{chain: ChainCode; txid: string; feeRate: number}>(async ({db, service}, {chain, txid, feeRate}) => {
        const settings = settingsOf(service, chain)
        const family = await payoutFamilyOf(settings)
        if (!family.beginCpfp) throw new PermanentError(`there is nothing to speed up on ${chain}; CPFP is for Bitcoin`)
        requireFollowed(service, chain)
        const {id, fee, amount} = await family.beginCpfp(db, settings, {txid, feeRate})
        return {
          json: {id, chain, txid, fee: fee.toString(), amount: amount.toString()},
          text: `A child of ${txid} pays ${fee} sat for both; sluice treasury show lists it until it is final.`,
        }
      }),
    )

  leaf(
    treasury,
    'cancel',
    [
      'Cancels an open withdrawal, or a stake that is not final.',
      '',
      'A transaction that moves nothing takes its place. Where transactions expire (Tron, Solana), it is not sent any more, and ends when it has expired.',
      'On EVM chains a withdrawal that custody refuses to sign blocks every later transaction of the treasury, until it is signed or cancelled.',
    ].join('\n'),
    'sluice treasury cancel 0192f3a4-b5c6-7d8e-9fa0-b1c2d3e4f508',
  )
    .argument('<id>', 'id of the withdrawal')
    .action(
      action(async ({db}, _options, id) => {
        await cancelWithdrawal(db, id)
        return {
          json: {id, cancelling: true},
          text: `Withdrawal ${id} is being cancelled; it still happens if it is mined first.`,
        }
      }),
    )
}

const aboutStaking = {
  stake: [
    "Stakes the operator's own TRX for energy: addresses then sweep tokens with energy that the treasury lends them, and burn nothing.",
    '',
    'Coins that are staked are no part of what the treasury can pay. They come back by sluice treasury unstake, 14 days later. --for bandwidth makes',
    "the bytes of the treasury's transactions free, lending among them. docs/operations/tron.md says how much to stake.",
  ],
  unstake: [
    'Unstakes TRX that is not lent. The network holds it for 14 days; then it is back in the treasury by itself.',
    '',
    'sluice treasury show says when. Energy that was used in the last 24 hours does not keep coins from being unstaked.',
  ],
}

function addStaking(treasury: Command, kind: 'stake' | 'unstake'): void {
  leaf(treasury, kind, aboutStaking[kind].join('\n'), `sluice treasury ${kind} --chain TRON --amount 20000`)
    .requiredOption('--chain <code>', 'the chain', chainCode)
    .requiredOption('--amount <amount>', 'in whole coins, such as 20000')
    .addOption(new Option('--for <resource>', 'what it gives').choices(['energy', 'bandwidth']).default('energy'))
    .action(
      action<{chain: ChainCode; amount: string; for: 'energy' | 'bandwidth'}>(
        async ({db, service}, {chain, amount, for: resource}) => {
          const settings = settingsOf(service, chain)
          const {beginStaking} = await payoutFamilyOf(settings)
          if (!beginStaking) throw new PermanentError(`nothing is staked on ${chain}; energy is for Tron`)
          const units = baseUnits(settings.chain.assets[0], amount)
          requireFollowed(service, chain)
          const id = await beginStaking(db, settings, {kind, resource, amount: units})
          const {token} = settings.chain.assets[0]
          const end = kind === 'stake' ? 'it counts once that is final' : 'they are back in 14 days'
          return {
            json: {id, chain, token, amount, resource},
            text: `${amount} ${token} are being ${kind}d for ${resource}: ${end}; sluice treasury show says how far it is.`,
          }
        },
      ),
    )
}

interface Stake {
  chain: string
  resource: string
  token: string
  staked: string
  lent: string
  unstaking: string
  next_free_at: Date | null
}

interface SweepCost {
  chain: string
  token: string
  fee_token: string
  burnt: string
  delegated: string
  way: 'burnt' | 'delegated'
  detail: string
}

interface Stakes {
  stakes: Stake[]
  sweep_costs: SweepCost[]
}

export async function stakesOf(db: pg.Client): Promise<Stakes> {
  const {rows: stakes} = await db.query<Stake>(
    'select chain, resource, token, staked, lent, unstaking, next_free_at from analytics.stakes order by chain, resource desc',
  )
  const {rows: sweep_costs} = await db.query<SweepCost>(
    'select chain, token, fee_token, burnt, delegated, way, detail from analytics.sweep_costs order by chain, token',
  )
  return {stakes, sweep_costs}
}

/** None where nothing is staked, and no sweep has two ways. */
export function stakeTables({stakes, sweep_costs: costs}: Stakes): string[] {
  const staked = table(
    ['chain', 'staked for', 'coins', 'lent now', 'unstaking', 'next back'],
    stakes.map(row => [
      row.chain,
      row.resource,
      `${row.staked} ${row.token}`,
      row.lent,
      row.unstaking,
      row.next_free_at && moment(row.next_free_at),
    ]),
    '',
  )
  const ways = table(
    ['chain', 'sweep of', 'burnt', 'by lent energy', 'now', 'because'],
    costs.map(row => [
      row.chain,
      row.token,
      `${row.burnt} ${row.fee_token}`,
      `${row.delegated} ${row.fee_token}`,
      row.way,
      row.detail,
    ]),
    '',
  )
  return [...(stakes.length ? [staked] : []), ...(costs.length ? [ways] : [])]
}

export async function treasuriesOf(db: pg.Client): Promise<Treasury[]> {
  const {rows} = await db.query<Treasury>(
    `select a.chain, app.treasury_address(a.chain) as address, a.token,
       app.decimal(coalesce(t.balance, 0), a.decimals) as balance, app.decimal(coalesce(t.reserved, 0), a.decimals) as reserved,
       app.decimal(app.operator_funds(a.chain, a.token), a.decimals) as operator,
       app.decimal(coalesce((select sum(s.amount) from app.treasury_share s where s.chain = a.chain and s.token = a.token and s.amount > 0), 0),
         a.decimals) as merchants,
       app.decimal(coalesce((select sum(g.amount) from app.gas g where g.chain = a.chain and app.native_token(a.chain) = a.token), 0),
         a.decimals) as gas_on_addresses
     from app.asset a left join app.treasury t using (chain, token)
     where app.treasury_address(a.chain) is not null order by a.chain, a.token`,
  )
  return rows
}

interface HeldBack {
  chain: string
  token: string
  merchant: string
  address: string
  held_back: string
  deposits: number
  minimum: string
  /** Null on chains with outputs: nothing that arrives changes an output. */
  missing: string | null
}

async function heldBack(db: pg.Client, chain: string | undefined): Promise<HeldBack[]> {
  const {rows} = await db.query<HeldBack>(
    `select h.chain, h.token, m.prefix as merchant, h.address, app.decimal(h.amount, a.decimals) as held_back, h.deposits,
       app.decimal(a.sweep_min, a.decimals) as minimum,
       case when not app.uses_outputs(h.chain) then app.decimal(a.sweep_min - app.unswept(h.chain, h.address, h.token), a.decimals) end as missing
     from (
       select d.merchant_id, d.chain, d.token, d.address, sum(d.amount) as amount, count(*)::int as deposits from app.deposit d
       where d.held_back and d.settlement_id is null and coalesce(d.chain = $1, true) and not app.is_blocked(d.chain, d.token, d.address) group by d.merchant_id, d.chain, d.token, d.address
       order by 2, 3, 5 desc, 4 limit ${shownAtMost}
     ) h join app.merchant m on m.id = h.merchant_id join app.asset a on a.chain = h.chain and a.token = h.token
     order by h.chain, h.token, h.amount desc, h.address`,
    [chain ?? null],
  )
  return rows
}

/** A cancel may come too late: the one of the two transactions that is mined counts. */
async function cancelWithdrawal(db: pg.Client, id: string): Promise<void> {
  const {rowCount} = await db.query(
    `select app.cancel_outgoing_payment(id) from app.outgoing_payment where id::text = $1 and kind in ('withdrawal', 'stake', 'unstake') and status <> 'final'`,
    [id],
  )
  const cpfp = `select from app.cpfp where outgoing_payment_id::text = $1`
  if (!rowCount && (await db.query(cpfp, [id])).rowCount)
    throw new PermanentError(
      `${id} is a CPFP child and cannot be cancelled: it pays the treasury in any case. It ends when it, or a transaction that replaces its parent, is final`,
    )
  if (!rowCount) throw new PermanentError(`there is no open withdrawal ${id}; sluice treasury show lists them`)
}

async function openWithdrawals(db: pg.Client): Promise<Withdrawal[]> {
  const {rows} = await db.query<Withdrawal>(
    `select s.id, case when r.deposit_id is not null then 'return' when b.outgoing_payment_id is not null then 'cpfp' else s.kind end as kind, s.chain, s.token, app.decimal(s.amount, a.decimals) as amount, s.recipient as "to", s.status, w.reason as waiting_reason,
       (select o.txid from app.outgoing_attempt o where o.outgoing_payment_id = s.id order by o.attempt desc limit 1) as txid, app.iso(s.created_at) as created_at
     from app.outgoing_payment s join app.asset a using (chain, token) cross join lateral app.why_outgoing_waits(s) w left join app.cpfp b on b.outgoing_payment_id = s.id
     left join app.unattributed_decision r on s.id in (r.sweep_id, r.withdrawal_id)
     where (s.kind in ('withdrawal', 'stake', 'unstake', 'reclaim') or b.outgoing_payment_id is not null or r.deposit_id is not null) and s.status <> 'final' order by s.created_at`,
  )
  return rows
}
