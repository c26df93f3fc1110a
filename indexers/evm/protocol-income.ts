// Protocol income: what the protocol itself pays in a block, without a transaction. These are the fees of the block's
// transactions, to one recipient, and withdrawals of validators. Promises: income of an address of ours is a transfer
// whose txid is the block's hash, so it is removed with its block in a reorganisation. Such value is never credited
// automatically (app.withhold_protocol_income).
//
// The recipient gets what the senders paid above the base fee; the base fee is burnt. Nothing is read from a block
// without a base fee: on such chains, or at that time, other rules applied. On Polygon (Bor) the header does not name
// the recipient. Instead, each paying transaction has a log that names it, by a contract whose address no other chain
// uses.
import type {Candidate} from '../block.ts'
import {type FetchedBlock, nobody} from './block.ts'

const firstFee = 2_000_000
const firstWithdrawal = 3_000_000
const weiPerGwei = 10n ** 9n

/**
 * LogFeeTransfer(address indexed token, address indexed from, address indexed to, uint256 amount, …), of Bor's native
 * token.
 */
const feeLog = {
  address: '0x0000000000000000000000000000000000001010',
  topic: '0x4dfe1bbbcf077ddc3e01291eea2d5c70c2b422b415d95645b9adcfd678cb1d63',
}

export function protocolIncome(block: FetchedBlock, native: string): Candidate[] {
  const fees = [...feesOf(block)].map(([to, amount], i) => ({to, amount, outputIndex: firstFee + i}))
  const withdrawals = block.withdrawals.map(({address, gwei}, i) => {
    return {to: address, amount: gwei * weiPerGwei, outputIndex: firstWithdrawal + i}
  })
  return [...fees, ...withdrawals]
    .filter(({to, amount}) => amount > 0n && to !== nobody)
    .map(({to, amount, outputIndex}) => {
      return {
        txid: block.header.hash,
        outputIndex,
        kind: 'protocol' as const,
        token: native,
        amount,
        sender: nobody,
        recipientKey: to.toLowerCase(),
      }
    })
}

/** The amount for each recipient; there is one. */
function feesOf({header: {miner, baseFeePerGas}, transactions, logs}: FetchedBlock): Map<string, bigint> {
  const fees = new Map<string, bigint>()
  const add = (to: string, amount: bigint) => fees.set(to, (fees.get(to) ?? 0n) + amount)
  for (const {address, topics, data} of logs) {
    const [topic, , , to] = topics
    if (topic === feeLog.topic && to && address.toLowerCase() === feeLog.address)
      add(`0x${to.slice(26)}`, BigInt(data.slice(0, 66)))
  }
  if (!fees.size && baseFeePerGas >= 0n)
    for (const {effectiveGasPrice, gasUsed} of transactions) add(miner, (effectiveGasPrice - baseFeePerGas) * gasUsed)
  return fees
}
