// The fee budget of custody's signatures. Promises: on each chain, the signatures of a day (UTC) cost no more in
// network fees than the chain's budget plus what the owner of the database added for that day. A quarter of the budget
// is reserved for replacing and cancelling payments under way. A sweep costs no more than what it brings is worth. On a
// halted chain nothing new is signed, except what the owner of the database decided about one payment.
//
// Attempts with the same conflict key exclude each other. So for each key the highest fee counts until a final block
// shows what was paid. Attempts that expire have no key: each counts alone, and nothing once it has expired in no
// block. The inputs are the journal's file (journal/known.ts), what the indexers write (chain.confirmed_tx), and rows
// of the database's owner. So nothing that the worker writes lowers a cost, nor does a changed row of custody.journal.
import type pg from 'pg'
import type {ChainSettings} from '../../chains/families.ts'
import type {ChainCode} from '../../chains/registry.ts'
import type {Known, Promised} from '../journal/known.ts'
import {isFromGas, type Plan} from './plan.ts'
import {Refusal} from './refusal.ts'

export interface Spent {
  budget: bigint
  /** Added by the owner of the database, for today. */
  raised: bigint
  used: bigint
  /** The part of the budget that only payments under way may use. */
  reserve: bigint
}

const reservePart = 4n

/** The current time, by the clock that dates the journal's entries. */
const now = () => new Date().toISOString()

/**
 * The cost of these: the highest fee that may be paid, until a final block shows the fee that was paid; and their gas.
 */
async function costOf(client: pg.ClientBase, chain: string, promised: Promised[]): Promise<bigint> {
  const {rows} = await client.query<{cost: string}>({
    name: 'cost_of_promised',
    text: `select coalesce(sum(coalesce(
          (select i.fee from chain.confirmed_tx i join chain.cursor c using (chain)
            where i.chain = $1 and i.conflict_key = p.conflict_key and i.block_height <= c.final_height limit 1),
          (select i.fee from chain.confirmed_tx i join chain.cursor c using (chain)
            where i.chain = $1 and i.conflict_key is null and i.txid = p.conflict_key and i.block_height <= c.final_height
            order by i.fee desc limit 1), -- of all who signed it, the one who paid
          case when l.txid is not null then 0 end,
          p.fee) + case when l.txid is null then p.gas else 0 end), 0)::text as cost
      from unnest($2::text[], $3::numeric[], $4::numeric[]) p (conflict_key, fee, gas)
      left join chain.lapse l on l.chain = $1 and l.txid = p.conflict_key`,
    values: [
      chain,
      promised.map(({conflictKey}) => conflictKey),
      promised.map(({fee}) => String(fee)),
      promised.map(({gas}) => String(gas)),
    ],
  })
  return BigInt(rows[0]!.cost)
}

/**
 * Gas counts when it is sent, and not again when it is used. What lent energy should cover counts until a final block
 * shows that it did.
 */
function costOfPlan(plan: Plan): bigint {
  if (isFromGas(plan)) return plan.mayBurn ?? 0n
  return plan.kind === 'fund' ? plan.maxFee + plan.amount : plan.maxFee
}

/** How much of a chain's budget was used today. */
export async function spentToday(
  client: pg.ClientBase,
  known: Known,
  {chain: {code}, feeBudget: budget}: Pick<ChainSettings, 'chain' | 'feeBudget'>,
): Promise<Spent> {
  const moment = now()
  const {rows} = await client.query<{raised: string}>({
    name: 'raised_today',
    text: 'select coalesce(sum(amount), 0)::text as raised from custody.budget_raise where chain = $1 and day = $2::date',
    values: [code, moment.slice(0, 10)],
  })
  const used = await costOf(client, code, known.promisedOn(moment, code))
  return {budget, raised: BigInt(rows[0]!.raised), used, reserve: budget / reservePart}
}

/**
 * For one turn of custody, in which nobody else signs: the used budget is read once for each chain, then counted in
 * memory.
 */
export class Budget {
  readonly #client: pg.Client
  readonly #chains: Map<ChainCode, ChainSettings>
  readonly #known: Known
  readonly #spent = new Map<ChainCode, Spent & {halted: string | null}>()

  constructor(client: pg.Client, chains: Map<ChainCode, ChainSettings>, known: Known) {
    this.#client = client
    this.#chains = chains
    this.#known = known
  }

  /** Throws a Refusal if the chain is halted, unless the owner of the database decided about this payment. */
  async checkHalt(chain: ChainCode, outgoingPaymentId: string | null): Promise<void> {
    const {halted} = await this.#read(chain)
    if (halted !== null && !(await this.#isDecided(outgoingPaymentId))) throw isHalted(chain, halted)
  }

  /** Counts the signature that comes next. Throws a Refusal if it must not be made. */
  async charge(plan: Plan): Promise<void> {
    const {chain} = plan
    const spent = await this.#read(chain)
    const before = await this.#costBefore(plan)
    const more = costOfPlan(plan) - before
    const used = more > 0n ? spent.used + more : spent.used
    const most = mostOf(spent, plan.isForPaymentUnderWay)
    if (used > most && more > 0n) throw isSpent(chain, spent, most, more)
    spent.used = used
  }

  /**
   * Throws a Refusal if a payout on this chain cannot get its first signature now. Payments that have begun and are not
   * signed yet come first: a payment with a nonce and no signature before tomorrow would hold up every later one.
   */
  async check(chain: ChainCode, payoutId: string): Promise<void> {
    const spent = await this.#read(chain)
    if (spent.halted !== null) throw isHalted(chain, spent.halted)
    const {rows} = await this.#client.query<{begun: string}>({
      name: 'begun_before',
      text: `select coalesce(sum(max_fee + case kind when 'fund' then amount else 0 end) filter (where not from_gas), 0)::text as begun
        from app.outgoing_payment where chain = $1 and status = 'allocated' and payout_id is distinct from $2`,
      values: [chain, payoutId],
    })
    const most = mostOf(spent, false)
    const begun = BigInt(rows[0]!.begun)
    if (spent.used + begun >= most) throw isSpent(chain, spent, most, begun)
  }

  async #read(chain: ChainCode): Promise<Spent & {halted: string | null}> {
    const known = this.#spent.get(chain)
    if (known) return known
    const {rows} = await this.#client.query<{halted: string | null}>({
      name: 'way_out',
      text: 'select app.way_out($1) as halted',
      values: [chain],
    })
    const spent = {...(await spentToday(this.#client, this.#known, this.#chains.get(chain)!)), halted: rows[0]!.halted}
    this.#spent.set(chain, spent)
    return spent
  }

  /** How much today's attempts with the same conflict key count. */
  async #costBefore({chain, conflictKey}: Plan): Promise<bigint> {
    if (conflictKey === null) return 0n
    const before = this.#known.promisedOn(now(), chain).filter(promised => promised.conflictKey === conflictKey)
    return before.length ? await costOf(this.#client, chain, before) : 0n
  }

  async #isDecided(outgoingPaymentId: string | null): Promise<boolean> {
    const {rowCount} = await this.#client.query({
      name: 'find_decision',
      text: 'select from custody.decision where outgoing_payment_id = $1',
      values: [outgoingPaymentId],
    })
    return rowCount === 1
  }
}

/** How much of the budget may be used: all of it by payments under way, all but the reserve by everything else. */
export function mostOf({budget, raised, reserve}: Spent, isForPaymentUnderWay: boolean): bigint {
  return budget + raised - (isForPaymentUnderWay ? 0n : reserve)
}

function isHalted(chain: string, why: string): Refusal {
  return new Refusal('chain_halted', `custody signs nothing on ${chain} now: ${why}`)
}

function isSpent(chain: string, {used}: Spent, most: bigint, more: bigint): Refusal {
  return new Refusal(
    'fee_budget_reached',
    `today's (UTC) signatures may cost ${used} in network fees, and the next ${more} more; ${chain}_FEE_BUDGET allows ${most}. Signing continues tomorrow, or when you raise today's budget: sluice custody budget`,
  )
}
