// Builds and signs payments of Tron's coin, and transfers of tokens. Promises: equal plans give equal bytes; the bytes
// are those that tronweb makes, which sign.test.ts compares. tronweb is not used, because custody's process would have
// to load it: 51 packages, and 50 to 120 MB, next to the keys, for a message of 130 bytes.
import {transferData as tokenTransferData} from '../../chains/tron/token-transfers.ts'
import {
  callData,
  type Frame,
  rawOf,
  reference,
  stakingData,
  transactionOf,
  transferData,
} from '../../chains/tron/transaction.ts'
import type {Signed} from '../family.ts'
import type {Details} from '../judge/attempts.ts'
import type {Plan} from '../judge/plan.ts'
import type {KeyStore} from '../keys/key-store.ts'
import type {TronTerms} from './plan.ts'

export type TronDetails = Details & {max_fee: string; may_burn?: string}

export async function sign(keys: KeyStore, plan: Plan & TronTerms): Promise<Signed<TronDetails>> {
  const {paths, on, lifetime, timestamp, mayBurn} = plan
  const rawData = rawDataOf(plan, {...reference(on.height, on.hash), expiration: lifetime.end, timestamp})
  const {txid} = transactionOf(rawData, [])
  const signature = await keys.sign(paths.source, Buffer.from(txid, 'hex'))
  signature[64]! += 27 // as tronweb writes it; nodes take both forms
  return {
    txid,
    raw: rawOf(transactionOf(rawData, [signature])),
    details: {
      lifetime: {...lifetime},
      timestamp,
      max_fee: String(plan.maxFee),
      ...(mayBurn && {may_burn: String(mayBurn)}),
    },
  }
}

function rawDataOf({source: from, destination: to, amount, call, staking}: Plan & TronTerms, frame: Frame): Uint8Array {
  if (staking) return stakingData(frame, staking)
  if (!call) return transferData(frame, {from, to, amount})
  const {feeLimit, contract} = call
  const data = Buffer.from(tokenTransferData(to, amount), 'hex')
  return callData({...frame, feeLimit}, {from, contract, value: 0n, data})
}
