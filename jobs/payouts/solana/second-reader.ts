// Reads what custody signed for Solana with the codecs of @solana/kit and of @solana-program/token
// (../second-reader.ts); custody's bytes are of its own making. Promises: no field goes unread, because the codecs make
// the same bytes of what they read; each signature is of the account that it stands for.
import {
  type AccountMeta,
  address,
  decompileTransactionMessage,
  getBase58Decoder,
  getCompiledTransactionMessageDecoder,
  getCompiledTransactionMessageEncoder,
  getPublicKeyFromAddress,
  getTransactionDecoder,
  getTransactionEncoder,
  getU32Decoder,
  getU64Decoder,
  type Instruction,
  type SignatureBytes,
  verifySignature,
} from '@solana/kit'
import {
  findAssociatedTokenPda,
  parseCreateAssociatedTokenIdempotentInstruction,
  parseTransferCheckedInstruction,
} from '@solana-program/token'
import {associatedTokenProgram, computeBudgetProgram, systemProgram} from '../../../chains/solana/address.ts'
import {signatureFee} from '../../../chains/solana/message.ts'
import {type SolanaSettings, splToken} from '../../../chains/solana/settings.ts'
import {tokenPrograms} from '../../../chains/solana/tokens.ts'
import type {Context, Facts, PlannedAttempt, Reading} from '../context.ts'
import type {Signed} from '../custody-client.ts'
import {amountOf, blockUnknown, readBy} from '../second-reader.ts'

/** The programs that a transaction calls, one after the other. */
const budget = [computeBudgetProgram, computeBudgetProgram]

export async function readSigned(
  to: Context,
  settings: SolanaSettings,
  planned: PlannedAttempt,
  signed: Signed,
): Promise<Reading> {
  const {chain, source, feePayer} = planned.outgoingPayment
  const rent = BigInt(signed.feeDetails.rent ?? 0)
  const {blockhash, says} = await readBy('@solana/kit', () => read(Buffer.from(signed.raw, 'hex'), rent))
  return {
    ...(!(await isRecent(to, chain, blockhash)) && {waits: blockUnknown}),
    says,
    asked: {
      version: 'legacy',
      txid: signed.txid,
      bytes: 'all read',
      'signed by': [...new Set([feePayer, source])].join(', '), // who pays the fee is the first
      'priority fee': String(signed.feeDetails.priority_fee),
      'highest fee': String(signed.maxFee),
      from: source,
      amount: String(amountOf(planned, signed)),
      ...(await askedMove(settings, planned, says)),
    },
  }
}

/**
 * What moves, by what was asked for. A sweep may leave any account of its address, which the chain checks, and may make
 * the treasury's, which costs nothing if it is there: custody may have signed it when that looked otherwise.
 */
async function askedMove(
  settings: SolanaSettings,
  {outgoingPayment: {kind, token, source, recipient, feePayer}}: PlannedAttempt,
  says: Facts,
): Promise<Facts> {
  if (token === settings.chain.assets[0].token) return {programs: [...budget, systemProgram].join(', '), recipient}
  const {contract, decimals, sweep} = splToken(settings, token)
  const [mint, tokenProgram] = [address(contract), address(tokenPrograms[sweep.program])]
  const accountOf = async (owner: string) =>
    (await findAssociatedTokenPda({owner: address(owner), mint, tokenProgram}))[0]
  const its = await accountOf(recipient)
  const isMade = kind !== 'sweep' || says['account made'] !== undefined
  return {
    programs: [...budget, ...(isMade ? [associatedTokenProgram] : []), tokenProgram].join(', '),
    recipient: its,
    mint,
    decimals: String(decimals),
    'from account': kind === 'sweep' ? says['from account']! : await accountOf(source),
    ...(isMade && {
      'account made': `${its} of ${mint} for ${recipient}, paid by ${feePayer}, by ${systemProgram} and ${tokenProgram}`,
    }),
  }
}

const microLamports = 1_000_000n

/** `rent`: what custody counts for an account that is made. */
async function read(bytes: Uint8Array, rent: bigint): Promise<{blockhash: string; says: Facts}> {
  const transaction = getTransactionDecoder().decode(bytes)
  const message = getCompiledTransactionMessageDecoder().decode(transaction.messageBytes)
  if (message.version !== 'legacy') throw new Error(`its version is ${message.version}`)
  const again = getTransactionEncoder().encode({
    ...transaction,
    messageBytes: getCompiledTransactionMessageEncoder().encode(message) as typeof transaction.messageBytes,
  })
  const [limit, price, ...moving] = decompileTransactionMessage(message).instructions.map(readable)
  if (limit?.data.length !== 5 || limit.data[0] !== 2 || price?.data.length !== 9 || price.data[0] !== 3)
    throw new Error('it tells the programs something else')
  const fee = ceil(getU64Decoder().decode(price.data, 1) * BigInt(getU32Decoder().decode(limit.data, 1)))
  const signed = Object.entries(transaction.signatures)
  const {made, ...moved} = readMove(moving)
  return {
    blockhash: message.lifetimeToken,
    says: {
      version: message.version,
      txid: getBase58Decoder().decode(signed[0]?.[1] ?? new Uint8Array()),
      bytes:
        Buffer.from(again).equals(bytes) && signed.length === message.header.numSignerAccounts
          ? 'all read'
          : 'more than is read',
      'signed by': (await signersOf(transaction.messageBytes, signed)).join(', '),
      programs: [limit, price, ...moving].map(({programAddress}) => programAddress).join(', '),
      'priority fee': String(fee),
      'highest fee': String(fee + signatureFee * BigInt(signed.length) + (made ? rent : 0n)),
      ...moved,
      ...(made && {'account made': made}),
    },
  }
}

/** An instruction with all its parts. */
type Readable = ReturnType<typeof readable>
const readable = ({programAddress, accounts = [], data = new Uint8Array()}: Instruction) => {
  return {programAddress, accounts: accounts as AccountMeta[], data: Buffer.from(data)}
}

/** What the instructions move that come after those for the fee, and for whom they make an account. */
function readMove(moving: Readable[]): Facts & {made?: string} {
  const last = moving.at(-1)
  const create = moving.length > 1 ? moving[0] : undefined
  if (!last || moving.length > 2) throw new Error('it has other instructions')
  if (last.programAddress === systemProgram && !create) return readLamports(last)
  if (last.data.length !== 10 || last.data[0] !== 12 || last.accounts.length !== 4)
    throw new Error('it moves a token in another way')
  const {
    accounts: {source, mint, destination, authority},
    data: {amount, decimals},
  } = parseTransferCheckedInstruction(last)
  return {
    from: authority.address,
    recipient: destination.address,
    amount: String(amount),
    mint: mint.address,
    decimals: String(decimals),
    'from account': source.address,
    ...(create && {made: readMade(create)}),
  }
}

function readLamports({accounts: [from, to], data}: Readable): Facts {
  if (data.length !== 12 || getU32Decoder().decode(data) !== 2) throw new Error('it is no transfer')
  return {
    from: from?.address ?? 'none',
    recipient: to?.address ?? 'none',
    amount: String(getU64Decoder().decode(data, 4)),
  }
}

function readMade(create: Readable): string {
  if (create.data.length !== 1 || create.data[0] !== 1 || create.accounts.length !== 6)
    throw new Error('it makes an account in another way')
  const {payer, ata, owner, mint, ...programs} = parseCreateAssociatedTokenIdempotentInstruction(create).accounts
  const by = `${programs.systemProgram.address} and ${programs.tokenProgram.address}`
  return `${ata.address} of ${mint.address} for ${owner.address}, paid by ${payer.address}, by ${by}`
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
