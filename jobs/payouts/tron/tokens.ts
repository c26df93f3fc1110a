// Transfers of tokens, as a node tries them: what they would burn, and whether they would be refused. Promises: nothing
// is sent. A trial is judged by whether it reverts, and a transfer by its log: USDT's contract returns false although
// it succeeded. An address is blamed only if the same transfer by the treasury, of nothing, would succeed, and if it is
// refused at the solidified block as well, so that no fork takes that back.
import {RetryableError} from '../../../base/errors.ts'
import {contractOf} from '../../../chains/contract-tokens.ts'
import type {Prices, Tried} from '../../../chains/tron/client.ts'
import {balanceData, movedTo, transferData} from '../../../chains/tron/token-transfers.ts'
import type {Payment} from '../accounts/rules.ts'
import {blockAddress, ofToken, openFeeIncident, takesFeeNow, tokenRefused, treasuryLacks} from '../accounts/tokens.ts'
import {type Context, notPayable, retryMs, type Wait} from '../context.ts'
import {type EnergyFee, feeOfPayment, paymentEnergyFee} from './fees.ts'
import type {Tron} from './node.ts'

/** What a node says of a transfer of a token after the newest block, or after the solidified one. */
export async function tryTransfer(
  {settings, nodes, tokensAreRight}: Tron,
  {token, amount, source: from, recipient}: Payment,
  at = {solid: false},
): Promise<Tried> {
  await tokensAreRight()
  const contract = contractOf(settings, token)!
  return await nodes.ask(node => node.try({from, contract, data: transferData(recipient, amount)}, at))
}

/** What an address holds of a token after the newest block, in base units. */
export async function tokenBalance({settings, nodes}: Tron, token: string, address: string): Promise<bigint> {
  const contract = contractOf(settings, token)!
  const {failure, returned} = await nodes.ask(node => node.try({from: address, contract, data: balanceData(address)}))
  if (failure || returned.length !== 32)
    throw new RetryableError(`the contract of ${token} did not return a balance: ${failure?.words ?? 'no number'}`)
  return BigInt(`0x${Buffer.from(returned).toString('hex')}`)
}

/** What a payment of a token burns; or why it is not begun, or signed. */
export async function paymentEnergy(
  to: Context,
  chain: Tron,
  payment: Payment,
  prices: Prices,
): Promise<EnergyFee | Wait> {
  const {settings} = chain
  const known = await openFeeIncident(to, settings.chain.code, payment.token)
  if (known) return known
  const tried = await tryTransfer(chain, payment)
  if (tried.failure)
    return (
      (await refusedByRecipient(chain, payment, tried)) ?? {
        reason: 'would_revert',
        detail: treasuryLacks(payment, await tokenBalance(chain, payment.token, payment.source)) ?? tried.failure.words,
        ms: retryMs.soon,
      }
    )
  const fee = takenFee(chain, payment, tried)
  if (fee) return fee
  const energy = paymentEnergyFee(settings, tried.energy, prices)
  if (energy) return energy
  const detail = `a payment of ${payment.token} may burn ${tried.energy * prices.energy} sun now; ${settings.chain.code}_TOKEN_PAYMENT_FEE allows ${settings.tokenPaymentFee}, with its bytes, and room for a contract that costs more`
  return {reason: 'fee_above_cap', detail, ms: retryMs.soon}
}

/** The most that a payment of a token may cost, in sun; or why it is not begun. */
export async function paymentFee(to: Context, chain: Tron, payment: Payment): Promise<bigint | Wait> {
  const prices = await chain.nodes.ask(node => node.prices())
  const energy = await paymentEnergy(to, chain, payment, prices)
  return 'ms' in energy ? energy : feeOfPayment(chain.settings, energy)
}

/** The wait of a payment that its recipient refuses; undefined if it does not, or nobody can say. */
export async function refusedByRecipient(chain: Tron, payment: Payment, tried?: Tried): Promise<Wait | undefined> {
  const {failure} = tried ?? (await tryTransfer(chain, payment))
  if (!failure?.isSure) return undefined
  const toSender = await tryTransfer(chain, {...payment, recipient: payment.source})
  if (toSender.failure) return undefined
  return notPayable('destination_not_payable', `the recipient refuses the payment: ${failure.words}`)
}

/** Why a token is not sent of which less would arrive than is sent. */
export function takenFee({settings}: Tron, {token, amount, recipient}: Payment, {logs}: Tried): Wait | undefined {
  const arrived = movedTo(logs, contractOf(settings, token)!, recipient)
  return arrived === amount ? undefined : takesFeeNow(token, amount, arrived)
}

/** The same, for a transfer that is tried now; undefined as well if the contract refuses it, and if it is of TRX. */
export async function takesFee(to: Context, chain: Tron, payment: Payment): Promise<Wait | undefined> {
  const {token} = payment
  if (contractOf(chain.settings, token) === undefined) return
  const known = await openFeeIncident(to, chain.settings.chain.code, token)
  if (known) return known
  const tried = await tryTransfer(chain, payment)
  return tried.failure ? undefined : takenFee(chain, payment, tried)
}

/** Why no sweep of a token is begun now: its contract would refuse the treasury's, too. */
export async function tokenRefusal(chain: Tron, token: string, treasury: string): Promise<Wait | undefined> {
  const words = await refusesTreasury(chain, token, treasury)
  return words === undefined ? undefined : tokenRefused(token, words)
}

/** What the contract says if the treasury sends nothing to itself. */
async function refusesTreasury(chain: Tron, token: string, treasury: string): Promise<string | undefined> {
  return sure(await tryTransfer(chain, {token, amount: 0n, source: treasury, recipient: treasury}))
}

/**
 * Blocks the address of a sweep that the node refuses, if the refusal is about that. Resolves to what is said of the
 * token, if it is about all of it.
 */
export async function blockIfRefused(
  to: Context,
  chain: Tron,
  {token, source: address, recipient: treasury, amount}: Payment,
): Promise<string | undefined> {
  const words = await refusesTreasury(chain, token, treasury)
  if (words !== undefined) return ofToken(token, words)
  const {failure} = await tryTransfer(chain, {token, source: address, recipient: treasury, amount}, {solid: true})
  if (failure?.isSure) await blockAddress(to, chain.settings.chain.code, {token, address}, failure.words)
}

/** Why the chain does not let a token leave an address; undefined if it does. */
export async function refusalOf(
  chain: Tron,
  {token, address, holds}: {token: string; address: string; holds: bigint},
  treasury: string,
): Promise<string | undefined> {
  const words = sure(await tryTransfer(chain, {token, amount: 0n, source: address, recipient: treasury}))
  if (words !== undefined) return words
  const balance = await tokenBalance(chain, token, address)
  return balance < holds
    ? `it holds ${balance} base units of ${token} on the chain, and ${holds} in the ledger`
    : undefined
}

/** A call that uses all the energy that a node allows one (10,000 TRX) is at fault itself. */
const ranOut = (words: string) => /not enough energy/i.test(words)

function sure({failure}: Tried): string | undefined {
  if (failure && !failure.isSure && !ranOut(failure.words))
    throw new RetryableError(`the node cannot say what a call does: ${failure.words}`)
  return failure?.words
}
