// Carries out the returns that an operator decided (sluice unattributed return): begins each of the two transactions of
// a return when it is due. Their outcome is recorded like that of any outgoing payment. Part of the tick.
//
// Safe to run twice, and beside another worker: if two begin the same transaction, one does. A return that cannot begin
// records why, and is tried again at the next tick.
import {failureOf, inWords} from '../../db/client/failure.ts'
import {
  type Context,
  noNode,
  type ReturnStep,
  retryable,
  retryMs,
  unreachable,
  type Wait,
  whyHalted,
} from './context.ts'

export async function carryOutReturns(to: Context): Promise<void> {
  const {rows} = await to.pool.query<Omit<ReturnStep, 'amount'> & {amount: string}>({
    name: 'due_returns',
    text: `select deposit_id as "depositId", chain, token, address, amount, destination, treasury, step from app.due_return`,
  })
  for (const row of rows) {
    const wait = await begin(to, {...row, amount: BigInt(row.amount)})
    if (wait) await to.pool.query('select app.wait_return($1, $2, $3)', [row.depositId, wait.reason, wait.detail])
  }
}

async function begin(to: Context, of: ReturnStep): Promise<Wait | undefined> {
  const halted = await whyHalted(to, of.chain)
  if (halted) return {reason: 'chain_halted', detail: halted, ms: retryMs.soon}
  const chain = to.chains.get(of.chain)
  if (!chain) return {reason: 'no_node', detail: noNode(of.chain), ms: retryMs.told}
  if (!chain.beginReturn)
    return {reason: 'not_returnable', detail: `nothing is returned on ${of.chain}`, ms: retryMs.told}
  try {
    return await retryable(chain.beginReturn(to, of), async detail => {
      return {...unreachable(of.chain, detail), ms: retryMs.soon}
    })
  } catch (error) {
    to.log.error(
      {deposit: of.depositId, step: of.step, error: inWords(error)},
      'a step of a return failed; it will be retried',
    )
    return {reason: failureOf(error)?.reason ?? 'error', detail: inWords(error), ms: retryMs.told}
  }
}
