// Instructions for accounts of wrapped SOL. An account that is closed gives its coins to anybody, without a transfer.
import {AccountRole, address, getAddressEncoder, type Instruction} from '@solana/kit'
import {transfer} from '../../../devnet/solana/transaction.ts'

export const tokenProgram = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
/** Its units are lamports. */
export const wrappedSol = 'So11111111111111111111111111111111111111112'
/** Of its data, in bytes. */
export const accountSize = 165

/** First bytes of instructions. */
export const initialize = 18
export const close = 9

const bytesOf = (text: string) => getAddressEncoder().encode(address(text))
const account = (text: string, role: AccountRole) => ({address: address(text), role})

/** The new account holds what it gets above the rent, for its owner. It signs, as does the account that pays for it. */
export function open(payer: string, at: string, {lamports, owner}: {lamports: bigint; owner: string}): Instruction[] {
  const {programAddress} = transfer(payer, at, lamports)
  const data = Buffer.alloc(52) // the first four bytes are those of CreateAccount
  data.writeBigUInt64LE(lamports, 4)
  data.writeBigUInt64LE(BigInt(accountSize), 12)
  data.set(bytesOf(tokenProgram), 20)
  const accounts = [account(payer, AccountRole.WRITABLE_SIGNER), account(at, AccountRole.WRITABLE_SIGNER)]
  const initialized = [account(at, AccountRole.WRITABLE), account(wrappedSol, AccountRole.READONLY)]
  return [
    {programAddress, accounts, data},
    {
      programAddress: address(tokenProgram),
      accounts: initialized,
      data: Uint8Array.of(initialize, ...bytesOf(owner)),
    },
  ]
}

/** All that it holds goes to `to`. */
export function closeInto(to: string, at: string, owner: string): Instruction {
  const accounts = [
    account(at, AccountRole.WRITABLE),
    account(to, AccountRole.WRITABLE),
    account(owner, AccountRole.READONLY_SIGNER),
  ]
  return {programAddress: address(tokenProgram), accounts, data: Uint8Array.of(close)}
}
