// Transactions of a local Solana chain, read and built with the network's own library.
import {
  AccountRole,
  type Address,
  address,
  appendTransactionMessageInstructions,
  type Blockhash,
  type CompiledTransactionMessage,
  compileTransaction,
  createTransactionMessage,
  getAddressDecoder,
  getAddressEncoder,
  getBase58Decoder,
  getCompiledTransactionMessageDecoder,
  getTransactionDecoder,
  getTransactionEncoder,
  type Instruction,
  pipe,
  type Transaction as SignedTransaction,
  setTransactionMessageFeePayer,
  setTransactionMessageLifetimeUsingBlockhash,
} from '@solana/kit'
import {addressOfKey, sign} from './keys.ts'

type Message = Extract<CompiledTransactionMessage, {instructions: unknown}> & {lifetimeToken: string}

export interface Transaction {
  /** The first signature, in base58. */
  txid: string
  signed: SignedTransaction
  message: Message
  signatures: string[]
  /** The static keys, then those of lookup tables: writable, then read-only. */
  keys: string[]
  writable: boolean[]
  /** Of the keys, how many the transaction itself has. */
  staticKeys: number
}

export class Malformed extends RangeError {
  override name = 'Malformed'
}

const noSignature = new Uint8Array(64)

/** `table`: the data of an address lookup table; undefined if there is none. */
export function parseTransaction(raw: Uint8Array, table: (address: string) => Uint8Array | undefined): Transaction {
  let signed: SignedTransaction
  let message: Message
  try {
    signed = getTransactionDecoder().decode(raw)
    message = getCompiledTransactionMessageDecoder().decode(signed.messageBytes) as Message
  } catch (error) {
    throw new Malformed(`no transaction: ${(error as Error).message}`)
  }
  if (raw.length > 1232 || !('instructions' in message)) throw new Malformed('too large, or of an unknown version')
  const {staticAccounts, header} = message
  const looked = {writable: [] as string[], readonly: [] as string[]}
  for (const lookup of ('addressTableLookups' in message && message.addressTableLookups) || []) {
    const data = table(lookup.lookupTableAddress)
    const at = (i: number) => {
      if (!data || data.length < 88 + 32 * i) throw new Malformed('its address lookup table has no such entry')
      return getAddressDecoder().decode(data, 56 + 32 * i)
    }
    looked.writable.push(...lookup.writableIndexes.map(at))
    looked.readonly.push(...lookup.readonlyIndexes.map(at))
  }
  const {numSignerAccounts: signers, numReadonlySignerAccounts, numReadonlyNonSignerAccounts} = header
  const isWritable = (i: number) =>
    i < signers
      ? i < signers - numReadonlySignerAccounts
      : i < staticAccounts.length - numReadonlyNonSignerAccounts || i >= staticAccounts.length
  const keys: string[] = [...staticAccounts, ...looked.writable, ...looked.readonly]
  const signatures = Object.values(signed.signatures).map(each => getBase58Decoder().decode(each ?? noSignature))
  return {
    txid: signatures[0]!,
    signed,
    message,
    signatures,
    keys,
    writable: keys.map((_, i) => isWritable(i) && i < staticAccounts.length + looked.writable.length),
    staticKeys: staticAccounts.length,
  }
}

const computeBudget = 'ComputeBudget111111111111111111111111111111'

/**
 * What a transaction pays, in lamports: 5000 for each signature, and the price that it names for each unit of its
 * limit.
 */
export function feeOf({message, signatures}: Transaction): bigint {
  const orders = message.instructions.filter(each => message.staticAccounts[each.programAddressIndex] === computeBudget)
  const dataOf = (kind: number) => orders.map(({data}) => Buffer.from(data ?? [])).find(([first]) => first === kind)
  const others = message.instructions.length - orders.length
  const limit = dataOf(2)?.readUInt32LE(1) ?? Math.min(200_000 * others, 1_400_000)
  const price = dataOf(3)?.readBigUInt64LE(1) ?? 0n
  return 5000n * BigInt(signatures.length) + (price * BigInt(limit) + 999_999n) / 1_000_000n
}

export interface Signing {
  key: Uint8Array
  /** The blockhash that it names. */
  on: string
  /** More keys that sign. */
  others?: Uint8Array[]
  version?: 'legacy' | 0
}

let last = 0

/** A transaction, in bytes; two equal ones differ. */
export function transactionWith(
  instructions: Instruction[],
  {key, on, others = [], version = 'legacy'}: Signing,
): Uint8Array {
  const compiled = pipe(
    createTransactionMessage({version}),
    message => setTransactionMessageFeePayer(address(addressOfKey(key)), message),
    message =>
      setTransactionMessageLifetimeUsingBlockhash({blockhash: on as Blockhash, lastValidBlockHeight: 0n}, message),
    message =>
      appendTransactionMessageInstructions([computeLimit(200_000 + (last++ % 100_000)), ...instructions], message),
    compileTransaction,
  )
  const signatures = [key, ...others].map(each => [addressOfKey(each), sign(compiled.messageBytes as never, each)])
  return new Uint8Array(
    getTransactionEncoder().encode({
      ...compiled,
      signatures: {...compiled.signatures, ...Object.fromEntries(signatures)},
    }),
  )
}

/** A payment by the account of a key. */
export function payment(signing: Signing, to: string, amount: bigint): Uint8Array {
  return transactionWith([transfer(addressOfKey(signing.key), to, amount)], signing)
}

export const systemProgram = '11111111111111111111111111111111' as Address

export function transfer(from: string, to: string, amount: bigint): Instruction {
  const data = Buffer.alloc(12)
  data.writeUInt32LE(2)
  data.writeBigUInt64LE(amount, 4)
  const accounts = [
    {address: address(from), role: AccountRole.WRITABLE_SIGNER},
    {address: address(to), role: AccountRole.WRITABLE},
  ]
  return {programAddress: systemProgram, accounts, data}
}

/** A new account of a program, with nothing in its bytes yet. It signs, as does who pays for it. */
export function createAccount(
  from: string,
  account: string,
  {lamports, bytes, owner}: {lamports: bigint; bytes: number; owner: string},
): Instruction {
  const data = Buffer.alloc(52)
  data.writeBigUInt64LE(lamports, 4)
  data.writeBigUInt64LE(BigInt(bytes), 12)
  data.set(getAddressEncoder().encode(address(owner)), 20)
  const accounts = [from, account].map(each => ({address: address(each), role: AccountRole.WRITABLE_SIGNER}))
  return {programAddress: systemProgram, accounts, data}
}

function computeLimit(units: number): Instruction {
  const data = Buffer.alloc(5)
  data[0] = 2
  data.writeUInt32LE(units, 1)
  return {programAddress: computeBudget as Address, data}
}
