// Reads what custody signed for Tron with tronweb (../second-reader.ts), which has a protobuf and a curve of its own.
// Promises: no field goes unread, because tronweb makes the transaction again of what it read, and that must have the
// same bytes; the signature is of the address whose money moves. tronweb is loaded with the first signature: it adds
// some 20 MiB to the worker.
import {findContract} from '../../../chains/contract-tokens.ts'
import {mostTokenBytesFee} from '../../../chains/tron/bytes.ts'
import type {TronSettings} from '../../../chains/tron/settings.ts'
import type {Context, Facts, PlannedAttempt, Reading} from '../context.ts'
import type {Signed} from '../custody-client.ts'
import {amountOf, readBy} from '../second-reader.ts'

export async function readSigned(
  to: Context,
  settings: TronSettings,
  planned: PlannedAttempt,
  signed: Signed,
): Promise<Reading> {
  const {chain, token, source, recipient} = planned.outgoingPayment
  const contract = findContract(settings, token)
  const {frame, says} = await readBy('tronweb', async () => read(await import('tronweb/utils'), signed.raw, contract))
  const amount = amountOf(planned, signed)
  const most = contract ? signed.maxFee - mostTokenBytesFee(settings) : 0n
  return {
    says: {...says, ...(await framed(to, settings, {chain, most, ...frame}))},
    asked: {
      owner: source,
      signer: source,
      permission: '0',
      memo: '',
      txid: signed.txid,
      bytes: 'all read',
      'fee limit': 'within the fee',
      expiry: 'in time',
      'block that it names': 'final',
      recipient,
      ...(contract ? {contract, value: '0', 'token value': '0', 'token id': '0'} : {}),
      amount: contract ? String(amount) : String(Number(amount)), // tronweb reads an int64 as a number
    },
  }
}

// --- what tronweb reads ---

interface Frame {
  /** The low two bytes of the height, and eight bytes of the hash, in hex. */
  block: string
  /** In ms. */
  expiration: number
  /** In sun. */
  feeLimit: bigint
}

type Value = Record<string, string | number>
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

function read(
  web: typeof import('tronweb/utils'),
  raw: string,
  contract: string | undefined,
): {frame: Frame; says: Facts} {
  const {TronWebProto} = globalThis as unknown as {
    TronWebProto: {Transaction: {deserializeBinary(bytes: Uint8Array): Wire}}
  }
  const whole = TronWebProto.Transaction.deserializeBinary(Uint8Array.from(Buffer.from(raw, 'hex')))
  const rawData = hex(whole.getRawData().serializeBinary())
  const json: Deserialized = web.deserializeTransaction(contract ? 'TriggerSmartContract' : 'TransferContract', rawData)
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
      signer: address(web.ecRecover(txid, hex(signature))),
      permission: String(json.contract[0]!.Permission_id),
      memo: json.data,
      txid,
      bytes: hex(again.serializeBinary()) === raw ? 'all read' : 'more than is read',
      ...(contract ? callIn(value, address) : {recipient: address(value.to_address), amount: String(value.amount)}),
    },
  }
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

/** Custody names a final block, an end within the lifetime of the settings, and no more energy than was reserved. */
async function framed(
  {pool}: Context,
  {lifetimeMs}: TronSettings,
  {chain, most, block, expiration, feeLimit}: Frame & {chain: string; most: bigint},
): Promise<Facts> {
  const {rows} = await pool.query<{is_final: boolean; is_in_time: boolean}>(
    `select exists (select from chain.block b where b.chain = c.chain and substr(b.hash, 17, 16) = $3
         and b.height = c.final_height - mod(mod(c.final_height - $2::int, 65536) + 65536, 65536)) as is_final,
       c.head_time >= to_timestamp($4::numeric / 1000) - interval '1 minute' as is_in_time
     from chain.cursor c where c.chain = $1`,
    [chain, Number.parseInt(block.slice(0, 4), 16), block.slice(4), expiration - lifetimeMs],
  )
  const {is_final, is_in_time} = rows[0]!
  return {
    'block that it names': is_final ? 'final' : 'unknown',
    expiry: is_in_time ? 'in time' : new Date(expiration).toISOString(),
    'fee limit': feeLimit <= most && feeLimit > 0n === most > 0n ? 'within the fee' : String(feeLimit),
  }
}
