// Reads what custody signed for Solana with the codecs of @solana/kit (../second-reader.ts); custody's bytes are of its
// own making. Promises: no field goes unread, because the codecs make the same bytes of what they read; each signature
// is of the account that it stands for.
import {
  address,
  getBase58Decoder,
  getCompiledTransactionMessageDecoder,
  getCompiledTransactionMessageEncoder,
  getPublicKeyFromAddress,
  getTransactionDecoder,
  getTransactionEncoder,
  getU32Decoder,
  getU64Decoder,
  type SignatureBytes,
  verifySignature,
} from '@solana/kit'
import {computeBudgetProgram, systemProgram} from '../../../chains/solana/address.ts'
import {signatureFee} from '../../../chains/solana/message.ts'
import type {Context, Facts, PlannedAttempt, Reading} from '../context.ts'
import type {Signed} from '../custody-client.ts'
import {amountOf, blockUnknown, readBy} from '../second-reader.ts'

export async function readSigned(to: Context, planned: PlannedAttempt, signed: Signed): Promise<Reading> {
  const {chain, source, recipient, feePayer} = planned.outgoingPayment
  const {blockhash, says} = await readBy('@solana/kit', () => read(Buffer.from(signed.raw, 'hex')))
  return {
    ...(!(await isRecent(to, chain, blockhash)) && {waits: blockUnknown}),
    says,
    asked: {
      version: 'legacy',
      txid: signed.txid,
      bytes: 'all read',
      'signed by': [...new Set([feePayer, source])].join(', '), // who pays the fee is the first
      programs: [computeBudgetProgram, computeBudgetProgram, systemProgram].join(', '),
      'priority fee': String(signed.feeDetails.priority_fee),
      'highest fee': String(signed.maxFee),
      from: source,
      recipient,
      amount: String(amountOf(planned, signed)),
    },
  }
}

const microLamports = 1_000_000n

async function read(bytes: Uint8Array): Promise<{blockhash: string; says: Facts}> {
  const transaction = getTransactionDecoder().decode(bytes)
  const message = getCompiledTransactionMessageDecoder().decode(transaction.messageBytes)
  if (message.version !== 'legacy') throw new Error(`its version is ${message.version}`)
  const {staticAccounts: accounts, instructions, header} = message
  const again = getTransactionEncoder().encode({
    ...transaction,
    messageBytes: getCompiledTransactionMessageEncoder().encode(message) as typeof transaction.messageBytes,
  })
  const [limit, price, transfer] = instructions.map(({data = new Uint8Array()}) => Buffer.from(data))
  const isKnown =
    limit?.length === 5 && limit[0] === 2 && price?.length === 9 && price[0] === 3 && transfer?.length === 12
  if (!isKnown || getU32Decoder().decode(transfer) !== 2) throw new Error('it tells the programs something else')
  const fee = ceil(getU64Decoder().decode(price, 1) * BigInt(getU32Decoder().decode(limit, 1)))
  const signed = Object.entries(transaction.signatures)
  const account = (at: number | undefined): string => accounts[at ?? -1] ?? 'none'
  const [from, recipient] = instructions[2]!.accountIndices ?? []
  return {
    blockhash: message.lifetimeToken,
    says: {
      version: message.version,
      txid: getBase58Decoder().decode(signed[0]?.[1] ?? new Uint8Array()),
      bytes:
        Buffer.from(again).equals(bytes) && signed.length === header.numSignerAccounts
          ? 'all read'
          : 'more than is read',
      'signed by': (await signersOf(transaction.messageBytes, signed)).join(', '),
      programs: instructions.map(({programAddressIndex}) => account(programAddressIndex)).join(', '),
      'priority fee': String(fee),
      'highest fee': String(fee + signatureFee * BigInt(signed.length)),
      from: account(from),
      recipient: account(recipient),
      amount: String(getU64Decoder().decode(transfer, 4)),
    },
  }
}

const ceil = (micro: bigint) => (micro + microLamports - 1n) / microLamports

/** Those whose signature is right, in their order. */
async function signersOf(
  message: Parameters<typeof verifySignature>[2],
  signed: [string, SignatureBytes | null][],
): Promise<string[]> {
  const signers: string[] = []
  for (const [account, signature] of signed) {
    const key = await getPublicKeyFromAddress(address(account))
    if (signature && (await verifySignature(key, signature, message))) signers.push(account)
  }
  return signers
}

/** Custody names a block that the indexer has read, and that is not old. */
async function isRecent({pool}: Context, chain: string, blockhash: string): Promise<boolean> {
  const {rowCount} = await pool.query(
    `select from chain.cursor c join chain.block b on b.chain = c.chain and b.height > c.head_height - 1000
     where c.chain = $1 and b.hash = $2`,
    [chain, blockhash],
  )
  return Boolean(rowCount)
}
