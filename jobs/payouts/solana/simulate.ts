// How a sweep would end, by a node, before custody signs it. Promises: nothing is proven by it, and nothing is signed
// for it; a sweep is only said to fail if its own address makes it fail. What the treasury lacks, or the node does not
// know yet, may pass.
import {z} from 'zod'
import {eachOf} from '../../../base/each-of.ts'
import {storable} from '../../../base/text.ts'
import type {Simulation} from '../../../chains/solana/client.ts'
import {messageOf, rawOf, signersOf} from '../../../chains/solana/message.ts'
import type {Refusal} from '../accounts/expiring-attempts.ts'
import type {OutgoingPayment} from '../outgoing-payments.ts'
import {type Solana, sweepPriorityFee} from './node.ts'

/** Of no block: the node puts its newest one there. */
const anyBlockhash = '1'.repeat(32)
/** Any that the message takes: custody chooses another one. */
const anyLimit = 2000
const unsigned = Buffer.alloc(64)

/**
 * What prevents each sweep, in the same order; undefined if nothing does, or no node says. Payouts must not wait for
 * that.
 */
export async function sweepRefusals({nodes}: Solana, sweeps: OutgoingPayment[]): Promise<(Refusal | undefined)[]> {
  const refusals = new Map<string, Refusal | undefined>()
  try {
    await eachOf(sweeps, async sweep => {
      const end = await nodes.ask(node => node.simulate(transactionOf(sweep)))
      refusals.set(sweep.id, refusalOf(end, sweep))
    })
  } catch {
    // A node that has had enough requests, or that simulates nothing: what is left is signed as it is, and expires if
    // it fails.
  }
  return sweeps.map(({id}) => refusals.get(id))
}

function transactionOf(sweep: OutgoingPayment): string {
  const {source: from, recipient: to, feePayer, amount} = sweep
  const priorityFee = sweepPriorityFee(sweep)
  const payment = {from, to, feePayer, amount, priorityFee, blockhash: anyBlockhash, computeUnitLimit: anyLimit}
  const raw = rawOf(
    messageOf(payment),
    signersOf(payment).map(() => unsigned),
  )
  return Buffer.from(raw, 'hex').toString('base64')
}

const OfAccount = z.object({InsufficientFundsForRent: z.object({account_index: z.int()})})
const OfInstruction = z.object({InstructionError: z.tuple([z.int(), z.unknown()])})

/** The accounts of the message begin with who signs. */
export function refusalOf(
  {error, logs}: Simulation,
  {source, feePayer}: Pick<OutgoingPayment, 'source' | 'feePayer'>,
): Refusal | undefined {
  if (error === null) return undefined
  const said = typeof error === 'string' ? error : JSON.stringify(error)
  const why = logs.findLast(line => !/^Program \S+ (invoke|consumed|success|failed)/.test(line))
  const account = OfAccount.safeParse(error).data?.InsufficientFundsForRent.account_index
  const isOfAddress =
    account === undefined
      ? OfInstruction.safeParse(error).success
      : signersOf({from: source, feePayer})[account] === source
  return {words: storable(`the node says: ${said}${why ? ` (${why})` : ''}`), isOfAddress}
}
