// Plans the next attempt of each outgoing payment: its inputs and its fee. Promises: every attempt has all inputs of
// the earlier ones. A replacement pays enough more for every node to take it. The first attempt pays what was reserved
// for it, however often it is planned. If no attempt can be made now, the outgoing payment says why.
import {scriptOfAddress} from '../../../chains/bitcoin/script.ts'
import type {BitcoinSettings} from '../../../chains/bitcoin/settings.ts'
import type {Context, PlannedAttempt, Wait} from '../context.ts'
import {type OutgoingPayment, waitOutgoingPayment} from '../outgoing-payments.ts'
import type {BitcoinNode} from './node.ts'
import {freeOutputs, reservedOutputs} from './outputs.ts'
import {ratesOf} from './rates.ts'
import {
  type Failure,
  mostInputs,
  type Output,
  type Price,
  type Selection,
  selectAll,
  selectCancel,
  selectPayment,
  sweepCap,
} from './select.ts'
import {whyShort} from './shortage.ts'

/** A chain of the family, and its node. */
export interface Bitcoin {
  settings: BitcoinSettings
  node: BitcoinNode
}

export interface BitcoinAttempt extends PlannedAttempt {
  /** The first input first. */
  inputs: Output[]
  fee: bigint
  /** Virtual bytes of an unconfirmed parent that it pays for; 0 for none. */
  parentVsize: number
  chain: Bitcoin
  price: Price
}

/** Its fee, and the inputs that pay it, follow from the price. */
type Unpriced = Omit<BitcoinAttempt, 'fee'>

const retryMs = 5000
/**
 * For an outgoing payment from custody's journal, a CPFP child whose parent the node does not return, or a child that
 * is being cancelled.
 */
const unknownOutputs =
  'the outputs that it spends are not known, or not final: the indexer must read their blocks first'
const lateRetryMs = 1000

/** The attempts that can be made now; the others wait. Throws RetryableError if the node cannot be reached. */
export async function plan(
  to: Context,
  chain: Bitcoin,
  outgoingPayments: OutgoingPayment[],
): Promise<BitcoinAttempt[]> {
  const rates = ratesOf(await chain.node.feeRates(), chain.settings)
  const reserved = await reservedOutputs(
    to.pool,
    outgoingPayments.map(({id}) => id),
  )
  const plans: BitcoinAttempt[] = []
  for (const outgoingPayment of outgoingPayments) {
    const {inputs, parentVsize} = reserved.get(outgoingPayment.id)!
    const kind = outgoingPayment.cancelling ? 'cancel' : 'effect'
    if (inputs[0]?.outpoint !== outgoingPayment.firstInput || (outgoingPayment.cancelling && parentVsize)) {
      await waitOutgoingPayment(to, outgoingPayment.id, {
        reason: 'unknown_outputs',
        detail: unknownOutputs,
        ms: retryMs,
      })
      continue
    }
    const price = rates && {rate: rates.replacing, cap: sweepCap(inputs.length, parentVsize, chain.settings.maxFeeRate)}
    if (!price) await waits(to, outgoingPayment, {aboveCap: true}, chain)
    else if (outgoingPayment.newest || outgoingPayment.cancelling) {
      const replaces = outgoingPayment.newest ? {replaces: outgoingPayment.maxFee} : {}
      const item = await priced(to, {
        outgoingPayment,
        kind,
        inputs,
        parentVsize,
        chain,
        price: {...price, ...replaces},
      })
      if (item) plans.push(item)
    } else plans.push({outgoingPayment, kind, inputs, parentVsize, fee: outgoingPayment.maxFee, chain, price})
  }
  return plans
}

/**
 * The attempt at this price, with more inputs if the change cannot pay the fee. Undefined if impossible; the outgoing
 * payment then waits.
 */
export async function priced(to: Context, item: Unpriced): Promise<BitcoinAttempt | undefined> {
  const {outgoingPayment, chain, price} = item
  const choose = await selecting(to, item)
  const selection = choose()
  if (!('inputs' in selection)) return await waits(to, outgoingPayment, selection, chain, choose)
  const {inputs, fee} = selection
  if (inputs.length > mostInputs) return await waits(to, outgoingPayment, {short: 1n}, chain)
  const more = inputs.slice(item.inputs.length).map(({outpoint}) => outpoint)
  if (more.length && !(await isAdded(to, outgoingPayment, more))) {
    await waitOutgoingPayment(to, outgoingPayment.id, {ms: lateRetryMs})
    return
  }
  return {...item, inputs: [item.inputs[0]!, ...inputs.slice(1).sort(byOutpoint)], fee, price}
}

/** The inputs, as they would be with `more` outputs of the treasury. */
type Choose = (more?: Output[]) => Selection | Failure

async function selecting(to: Context, {outgoingPayment, kind, inputs, chain, price}: Unpriced): Promise<Choose> {
  if (kind === 'effect' && outgoingPayment.kind === 'sweep') return () => selectAll(inputs, price)
  const {settings} = chain
  const select = (may: Output[]): Selection | Failure => {
    if (kind === 'cancel') return selectCancel(inputs, may, price)
    const script = scriptOfAddress(outgoingPayment.recipient, settings.chain.networks[settings.network])
    return selectPayment({amount: outgoingPayment.amount, scriptLength: script.length}, inputs, may, price)
  }
  const alone = select([])
  if (!('short' in alone)) return () => alone
  const free = await freeOutputs(to.pool, outgoingPayment.chain, null)
  return (more = []) => select([...free, ...more])
}

async function isAdded({pool}: Context, outgoingPayment: OutgoingPayment, outpoints: string[]): Promise<boolean> {
  const {rows} = await pool.query<{is_added: boolean}>('select app.add_inputs($1, $2, $3) as is_added', [
    outgoingPayment.id,
    (outgoingPayment.newest?.number ?? 0) + 1,
    outpoints,
  ])
  return rows[0]!.is_added
}

async function waits(
  to: Context,
  {id, maxFee}: OutgoingPayment,
  why: Failure,
  {settings}: Bitcoin,
  choose: Choose = () => why,
): Promise<undefined> {
  const {code} = settings.chain
  const waiting: Pick<Wait, 'reason' | 'detail'> =
    'short' in why
      ? await whyShort(
          to,
          {chain: code, merchantId: null},
          `a fee above ${maxFee} sat needs ${why.short} sat more than its inputs and the treasury's free outputs have`,
          choose,
        )
      : {
          reason: 'fee_above_cap',
          detail: `the network fee, for this transaction or its replacement, is above ${code}_MAX_FEE_RATE (${settings.maxFeeRate} sat/vB)`,
        }
  await waitOutgoingPayment(to, id, {...waiting, ms: retryMs})
}

function byOutpoint(a: Output, b: Output): number {
  const [[idA, atA], [idB, atB]] = [a, b].map(({outpoint}) => outpoint.split(':')) as [
    [string, string],
    [string, string],
  ]
  return idA === idB ? Number(atA) - Number(atB) : idA < idB ? -1 : 1
}
