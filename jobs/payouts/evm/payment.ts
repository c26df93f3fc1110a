// A payment or a withdrawal as a call, and whether its recipient refuses it: its code does not take coins, or the
// token's contract does not let it have any. Promises: a recipient is blamed only if the node is sure that the payment
// would fail, and says that the same payment to its sender would not.
import {least, most} from '../../../base/bigints.ts'
import {leastGas, mostGas} from '../../../chains/evm/gas-limits.ts'
import type {Payment} from '../accounts/rules.ts'
import {notPayable, type Wait} from '../context.ts'
import {withRoom} from './fees.ts'
import {type Call, contractOf, type Estimate, type Evm, tokenTransfer} from './node.ts'

/** A recipient with code may need more by the time that it is paid; a token's contract, too. */
export const roomPercent = 25n

/** The call that a payment or a withdrawal makes. */
export function paymentCall(chain: Evm, {token, amount, source, recipient}: Payment): Call {
  const contract = contractOf(chain, token)
  return contract
    ? {from: source, to: contract, data: tokenTransfer(recipient, amount)}
    : {from: source, to: recipient, value: amount}
}

/** The gas limit of a payment, or why it is not made. */
export function paymentGas(estimate: Estimate, bytesNeed: bigint = leastGas.transfer): Estimate {
  if ('failure' in estimate) return estimate
  const {gas} = estimate
  if (gas > mostGas)
    return {failure: `it needs ${gas} gas, and no transaction may use more than ${mostGas} (EIP-7825)`, isSure: true}
  return {gas: least(most(withRoom(gas, roomPercent), bytesNeed), mostGas)}
}

/**
 * The wait of a payment that its recipient refuses; undefined if it does not, or nobody can say. Throws RetryableError
 * if the node cannot be asked.
 */
export async function refusedByRecipient(chain: Evm, payment: Payment): Promise<Wait | undefined> {
  const [estimate] = await chain.node.estimates([paymentCall(chain, payment)])
  const limit = paymentGas(estimate!)
  if ('gas' in limit || !limit.isSure) return undefined
  const [toSender] = await chain.node.estimates([paymentCall(chain, {...payment, recipient: payment.source})])
  if ('failure' in toSender!) return undefined
  return notPayable('destination_not_payable', `the recipient refuses the payment: ${limit.failure}`)
}
