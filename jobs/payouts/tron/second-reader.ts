// Reads what custody signed for Tron with tronweb (../second-reader.ts), which has a protobuf and a curve of its own.
// Promises: no field goes unread, because tronweb makes the transaction again of what it read, and that must have the
// same bytes; the signature is of the address whose money moves. tronweb is loaded with the first signature: it adds
// some 20 MiB to the worker.
import {findContract} from '../../../chains/contract-tokens.ts'
import {mostTokenBytesFee} from '../../../chains/tron/bytes.ts'
import type {TronSettings} from '../../../chains/tron/settings.ts'
import type {Context, Facts, PlannedAttempt, Reading} from '../context.ts'
import type {Signed} from '../custody-client.ts'
import type {OutgoingPayment} from '../outgoing-payments.ts'
import {amountOf, blockUnknown, readBy} from '../second-reader.ts'

export async function readSigned(
  to: Context,
  settings: TronSettings,
  planned: PlannedAttempt,
  signed: Signed,
): Promise<Reading> {
  const {chain, kind, token, source} = planned.outgoingPayment
  const contract = findContract(settings, token)
  const staking = isStaking(kind) ? kind : undefined
  const type = staking ? stakingTypes[staking] : contract ? 'TriggerSmartContract' : 'TransferContract'
  const {frame, says} = await readBy('tronweb', async () => read(await import('tronweb/utils'), signed.raw, type))
  const burnt = signed.feeDetails.may_burn
  const most = contract ? signed.maxFee - mostTokenBytesFee(settings) + BigInt(burnt ?? 0) : 0n
  const {isFinal, ...framing} = await framed(to, settings, {chain, most, ...frame})
  return {
    ...(!isFinal && {waits: blockUnknown}),
    says: {...says, ...framing},
    asked: {
      owner: source,
      signer: source,
      permission: '0',
      memo: '',
      txid: signed.txid,
      bytes: 'all read',
      'fee limit': 'within the fee',
      expiry: 'in time',
      ...(staking ? askedOfStake(staking, planned.outgoingPayment) : askedOfMove(planned, signed, contract)),
    },
  }
}

function askedOfMove(planned: PlannedAttempt, signed: Signed, contract: string | undefined): Facts {
  const {recipient} = planned.outgoingPayment
  const amount = amountOf(planned, signed)
  if (contract) return {recipient, contract, value: '0', 'token value': '0', 'token id': '0', amount: String(amount)}
  return {recipient, amount: read64(amount)}
}

const stakingTypes = {
  delegate: 'DelegateResourceContract',
  undelegate: 'UnDelegateResourceContract',
  stake: 'FreezeBalanceV2Contract',
  unstake: 'UnfreezeBalanceV2Contract',
  reclaim: 'WithdrawExpireUnfreezeContract',
} as const
type StakingKind = keyof typeof stakingTypes
const isStaking = (kind: string): kind is StakingKind => kind in stakingTypes

function askedOfStake(kind: StakingKind, {recipient, amount, resource}: OutgoingPayment): Facts {
  if (kind === 'reclaim') return {}
  const common = {amount: read64(amount), resource: String(resource).toUpperCase()}
  if (kind === 'delegate') return {...common, recipient, lock: 'false', 'lock period': '0'}
  return kind === 'undelegate' ? {...common, recipient} : common
}

/** tronweb reads an int64 as a number. */
const read64 = (amount: bigint) => String(Number(amount))

// --- what tronweb reads ---

interface Frame {
  /** The low two bytes of the height, and eight bytes of the hash, in hex. */
  block: string
  /** In ms. */
  expiration: number
  /** In sun. */
  feeLimit: bigint
}

type Value = Record<string, string | number | boolean>
interface Deserialized {
  contract: {parameter: {value: Value}; Permission_id: number}[]
  data: string
  fee_limit: number
  ref_block_bytes: string
  ref_block_hash: string
  expiration: number
}

/** tronweb has no types for what is on the wire. */
interface Wire {
  getRawData(): {serializeBinary(): Uint8Array}
  getSignatureList_asU8(): Uint8Array[]
}

function read(web: typeof import('tronweb/utils'), raw: string, type: string): {frame: Frame; says: Facts} {
  const {TronWebProto} = globalThis as unknown as {
    TronWebProto: {Transaction: {deserializeBinary(bytes: Uint8Array): Wire}}
  }
  const whole = TronWebProto.Transaction.deserializeBinary(Uint8Array.from(Buffer.from(raw, 'hex')))
  const rawData = hex(whole.getRawData().serializeBinary())
  const json: Deserialized = web.deserializeTransaction(type, rawData)
  const again = web.txJsonToPb({raw_data: json})
  const txid = web.txPbToTxID(again).replace(/^0x/, '')
  const [signature = new Uint8Array()] = whole.getSignatureList_asU8()
  again.addSignature(signature)
  const address = (bytes: unknown) => web.getBase58CheckAddress(web.hexStr2byteArray(String(bytes)))
  const {value} = json.contract[0]!.parameter
  return {
    frame: {
      block: `${json.ref_block_bytes}${json.ref_block_hash}`.toLowerCase(),
      expiration: json.expiration,
      feeLimit: BigInt(json.fee_limit),
    },
    says: {
      owner: address(value.owner_address),
      // tronweb takes any last byte for one of the two that there are
      signer: [27, 28].includes(signature[64]!) ? address(web.ecRecover(txid, hex(signature))) : 'nobody',
      permission: String(json.contract[0]!.Permission_id),
      memo: json.data,
      txid,
      bytes: hex(again.serializeBinary()) === raw ? 'all read' : 'more than is read',
      ...effectOf(type, value, address),
    },
  }
}

/** What a transaction of a type says that its owner does. */
function effectOf(type: string, value: Value, address: (bytes: unknown) => string): Facts {
  if (type === 'TriggerSmartContract') return callIn(value, address)
  if (type === 'TransferContract') return {recipient: address(value.to_address), amount: String(value.amount)}
  const {owner_address: _, receiver_address, lock_period, frozen_balance, unfreeze_balance, balance, ...named} = value
  const amount = balance ?? frozen_balance ?? unfreeze_balance
  const facts = {...named, 'lock period': lock_period, amount, recipient: receiver_address && address(receiver_address)}
  return Object.fromEntries(
    Object.entries(facts).flatMap(([name, said]) => (said === undefined ? [] : [[name, String(said)]])),
  )
}

/** A call of transfer(address,uint256), which carries nothing. */
function callIn(value: Value, address: (bytes: unknown) => string): Facts {
  const call = /^a9059cbb0{24}([0-9a-f]{40})([0-9a-f]{64})$/i.exec(String(value.data))
  return {
    contract: address(value.contract_address),
    value: String(value.call_value),
    'token value': String(value.call_token_value),
    'token id': String(value.token_id),
    recipient: call ? address(`41${call[1]}`) : 'in no transfer',
    amount: call ? String(BigInt(`0x${call[2]}`)) : 'of no transfer',
  }
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

// --- what a transaction names besides ---

/**
 * Custody names a final block, an end within the lifetime of the settings, and no more energy than was reserved. (Since
 * it signed, the head may have gone back, by a rewind or a fork, and the block may be final no more. It signs only
 * while the time of the head is near the clock.)
 */
async function framed(
  {pool}: Context,
  {lifetimeMs}: TronSettings,
  {chain, most, block, expiration, feeLimit}: Frame & {chain: string; most: bigint},
): Promise<{isFinal: boolean; expiry: string; 'fee limit': string}> {
  const {rows} = await pool.query<{is_final: boolean; is_in_time: boolean}>(
    `select exists (select from chain.block b where b.chain = c.chain and substr(b.hash, 17, 16) = $3
         and b.height = c.final_height - mod(mod(c.final_height - $2::int, 65536) + 65536, 65536)) as is_final,
       greatest(c.head_time, clock_timestamp()) >= to_timestamp($4::numeric / 1000) - interval '1 minute' as is_in_time
     from chain.cursor c where c.chain = $1`,
    [chain, Number.parseInt(block.slice(0, 4), 16), block.slice(4), expiration - lifetimeMs],
  )
  const {is_final, is_in_time} = rows[0]!
  return {
    isFinal: is_final,
    expiry: is_in_time ? 'in time' : new Date(expiration).toISOString(),
    'fee limit': feeLimit <= most && feeLimit > 0n === most > 0n ? 'within the fee' : String(feeLimit),
  }
}
