// The tokens of every local Solana chain, with mints in its first block: USDC and USDT as their issuers have them, one
// of Token-2022 whose issuer can take it from every address, as PYUSD's can, and one that takes a fee on transfers.
// Promises: the network's own programs move them. The settings of a service say which of them it knows, as on any other
// chain.
import {address, getAddressEncoder, type Instruction} from '@solana/kit'
import {getCreateAssociatedTokenIdempotentInstruction, getTransferCheckedInstruction} from '@solana-program/token'
import {token2022Program, tokenProgram} from '../../chains/solana/address.ts'
import {associatedAccount} from '../../chains/solana/tokens.ts'
import {faucet, hashOf, sha256} from './constants.ts'
import type {Account} from './journal.ts'
import {addressOfKey} from './keys.ts'

export interface LocalToken {
  token: string
  decimals: number
  mint: string
  program: string
  /** After the bytes of the mint, and of the faucet's account. */
  extensions?: {mint: Buffer; account?: Buffer}
}

/** Everybody knows this key: it makes and freezes all of them. */
export const issuerKey = sha256('the issuer of tokens on the local Solana chain')
const issuer = addressOfKey(issuerKey)
const keyBytes = (text: string) => Buffer.from(getAddressEncoder().encode(address(text)))

/** The number of an extension, its length, and it. */
function extension(number: number, data: Buffer): Buffer {
  const head = Buffer.alloc(4)
  head.writeUInt16LE(number)
  head.writeUInt16LE(data.length, 2)
  return Buffer.concat([head, data])
}

/**
 * Who may change it and take what was withheld, how much was, and twice: the epoch, the most, and hundredths of a
 * percent.
 */
function transferFee(hundredths: number, mostUnits: bigint): Buffer {
  const data = Buffer.alloc(108)
  data.set(keyBytes(issuer))
  data.set(keyBytes(issuer), 32)
  for (const at of [72, 90]) {
    data.writeBigUInt64LE(mostUnits, at + 8)
    data.writeUInt16LE(hundredths, at + 16)
  }
  return extension(1, data)
}
const withheldNothing = extension(2, Buffer.alloc(8))

const mintOf = (token: string) => hashOf(`the mint of ${token} on the local Solana chain`)
export const tokens: readonly LocalToken[] = [
  {token: 'USDC', decimals: 6, mint: mintOf('USDC'), program: tokenProgram},
  {token: 'USDT', decimals: 6, mint: mintOf('USDT'), program: tokenProgram},
  {
    token: 'PYUSD',
    decimals: 6,
    mint: mintOf('PYUSD'),
    program: token2022Program,
    extensions: {mint: extension(12, keyBytes(issuer))},
  },
  {
    token: 'FEEUSD',
    decimals: 6,
    mint: mintOf('FEEUSD'),
    program: token2022Program,
    extensions: {mint: transferFee(100, 1_000_000n), account: withheldNothing},
  },
]

/** In base units. */
const supply = 10n ** 18n
const lamports = 10_000_000n

const accountBytes = 165
const kinds = {mint: 1, account: 2}

/** What is there in the first block: the mints, and accounts of the faucet that hold the whole supply. */
export function firstAccounts(): Map<string, Account> {
  return new Map(
    tokens.flatMap((token): [string, Account][] => {
      const mint = stored(token, withExtension(mintData(token), kinds.mint, token.extensions?.mint))
      return [[token.mint, mint], heldBy(token, faucet, supply)]
    }),
  )
}

/** The associated account of an owner, with so much; and where it is. */
export function heldBy(token: LocalToken, owner: string, amount: bigint): [string, Account] {
  const data = withExtension(accountData(token, owner, amount), kinds.account, token.extensions?.account)
  return [accountOf(token, owner), stored(token, data)]
}

const stored = ({program: owner}: LocalToken, data: Buffer): Account => ({lamports, data, owner, executable: false})

/** As a program of tokens stores a mint (Mint). */
function mintData({decimals}: LocalToken): Buffer {
  const data = Buffer.alloc(82)
  data.writeUInt32LE(1)
  data.set(keyBytes(issuer), 4)
  data.writeBigUInt64LE(supply, 36)
  data[44] = decimals
  data[45] = 1
  data.writeUInt32LE(1, 46)
  data.set(keyBytes(issuer), 50)
  return data
}

/** The same of an account (Account). */
function accountData({mint}: LocalToken, owner: string, amount: bigint): Buffer {
  const data = Buffer.alloc(accountBytes)
  data.set(keyBytes(mint))
  data.set(keyBytes(owner), 32)
  data.writeBigUInt64LE(amount, 64)
  data[108] = 1
  return data
}

function withExtension(data: Buffer, kind: number, extension: Buffer | undefined): Buffer {
  if (!extension) return data
  return Buffer.concat([data, Buffer.alloc(accountBytes - data.length), Buffer.of(kind), extension])
}

export function tokenCalled(name: string): LocalToken {
  const found = tokens.find(({token}) => token === name)
  if (found) return found
  throw new RangeError(`the local chain has no ${name}`)
}

/** The associated account of an owner. */
export const accountOf = ({mint, program}: LocalToken, owner: string): string =>
  associatedAccount(owner, mint, program === tokenProgram ? 'token' : 'token-2022')

/** A payment by an owner, who also pays for the account of the recipient. Both sign nothing here. */
export function tokenPayment(
  token: LocalToken,
  {from, to, amount, payer = from}: {from: string; to: string; amount: bigint; payer?: string},
): Instruction[] {
  const [source, destination] = [accountOf(token, from), accountOf(token, to)]
  const program = address(token.program)
  const mint = address(token.mint)
  return [
    getCreateAssociatedTokenIdempotentInstruction({
      payer: signer(payer),
      ata: address(destination),
      owner: address(to),
      mint,
      tokenProgram: program,
    }),
    getTransferCheckedInstruction(
      {
        source: address(source),
        mint,
        destination: address(destination),
        authority: signer(from),
        amount,
        decimals: token.decimals,
      },
      {programAddress: program},
    ),
  ]
}

/** An account that signs, for code that wants a signer: transactionWith signs by itself. */
export const signer = (of: string) => ({address: address(of), signTransactions: async () => []})
