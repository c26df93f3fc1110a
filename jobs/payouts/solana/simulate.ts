// How a sweep would end, by a node, before custody signs it. Promises: nothing is proven by it, and nothing is signed
// for it; a sweep is only said to fail if its own address makes it fail. What the treasury lacks, or the node does not
// know yet, may pass.
import {z} from 'zod'
import {eachOf} from '../../../base/each-of.ts'
import {storable} from '../../../base/text.ts'
import type {Simulation} from '../../../chains/solana/client.ts'
import {messageOf, rawOf, signersOf} from '../../../chains/solana/message.ts'
import {Refusal} from '../accounts/expiring-attempts.ts'
import type {OutgoingPayment} from '../outgoing-payments.ts'
import {offers, type Solana, sweepPriorityFee} from './node.ts'

/** Of no block: the node puts its newest one there. */
const anyBlockhash = '1'.repeat(32)
/** Any that the message takes: custody chooses another one. */
const anyLimit = 2000
const unsigned = Buffer.alloc(64)
const wouldRevertRetryMs = 5000

/** Why a sweep would fail. */
interface Failure {
  words: string
  /** Its address makes it fail: another sweep may not. Otherwise it may pass. */
  isOfAddress: boolean
}

/** What each transaction offers for its place in a block; or why it is not signed, as far as a node says. */
export async function offersOrRefusals(
  chain: Solana,
  payments: OutgoingPayment[],
): Promise<({priority_fee: string} | Refusal)[]> {
  const failures = await failuresOf(
    chain,
    payments.filter(({kind}) => kind === 'sweep'),
  )
  const offered = await offers(chain, payments)
  return payments.map(({id}, i) => {
    const failure = failures.get(id)
    if (!failure) return offered[i]!
    return new Refusal(
      {reason: 'would_revert', detail: failure.words, ms: wouldRevertRetryMs},
      {givesUp: failure.isOfAddress},
    )
  })
}

/** What prevents each sweep, by its id. Payouts must not wait for that: where no node says, nothing does. */
async function failuresOf({nodes}: Solana, sweeps: OutgoingPayment[]): Promise<Map<string, Failure>> {
  const failures = new Map<string, Failure>()
  try {
    await eachOf(sweeps, async sweep => {
      const failure = failureOf(await nodes.ask(node => node.simulate(transactionOf(sweep))), sweep)
      if (failure) failures.set(sweep.id, failure)
    })
  } catch {
    // A node that has had enough requests, or that simulates nothing: what is left is signed as it is, and expires if
    // it fails.
  }
  return failures
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
export function failureOf(
  {error, logs}: Simulation,
  {source, feePayer}: Pick<OutgoingPayment, 'source' | 'feePayer'>,
): Failure | undefined {
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
