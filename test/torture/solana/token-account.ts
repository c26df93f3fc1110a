// Instructions for accounts of tokens. An account of wrapped SOL that is closed gives its coins to anybody, without a
// transfer; one of another token may be given to another owner, with all that it holds.
import {AccountRole, address, getAddressEncoder, type Instruction} from '@solana/kit'
import {faucet} from '../../../devnet/solana/constants.ts'
import {accountOf, type LocalToken} from '../../../devnet/solana/tokens.ts'
import {createAccount} from '../../../devnet/solana/transaction.ts'

export const tokenProgram = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
/** Its units are lamports. */
export const wrappedSol = 'So11111111111111111111111111111111111111112'
/** Of its data, in bytes. */
export const accountSize = 165

/** First bytes of instructions. */
export const initialize = 18
export const close = 9
export const transferChecked = 12
/** Of the owner of an account. */
export const setAuthority = 6

const bytesOf = (text: string) => getAddressEncoder().encode(address(text))
const account = (text: string, role: AccountRole) => ({address: address(text), role})

/** The new account holds what it gets above the rent, for its owner. It signs, as does the account that pays for it. */
export function open(
  payer: string,
  at: string,
  {lamports, owner, mint = wrappedSol}: {lamports: bigint; owner: string; mint?: string},
): Instruction[] {
  const initialized = [account(at, AccountRole.WRITABLE), account(mint, AccountRole.READONLY)]
  return [
    createAccount(payer, at, {lamports, bytes: accountSize, owner: tokenProgram}),
    {
      programAddress: address(tokenProgram),
      accounts: initialized,
      data: Uint8Array.of(initialize, ...bytesOf(owner)),
    },
  ]
}

/** A new account of the faucet's gets so much, and then another owner. It signs, as does the faucet. */
export function openOf(token: LocalToken, at: string, {of, amount}: {of: string; amount: bigint}): Instruction[] {
  const transfer = Buffer.alloc(10)
  transfer[0] = transferChecked
  transfer.writeBigUInt64LE(amount, 1)
  transfer[9] = token.decimals
  const places = [
    account(accountOf(token, faucet), AccountRole.WRITABLE),
    account(token.mint, AccountRole.READONLY),
    account(at, AccountRole.WRITABLE),
    account(faucet, AccountRole.READONLY_SIGNER),
  ]
  const given = [account(at, AccountRole.WRITABLE), account(faucet, AccountRole.READONLY_SIGNER)]
  const programAddress = address(tokenProgram)
  return [
    ...open(faucet, at, {lamports: 3_000_000n, owner: faucet, mint: token.mint}),
    {programAddress, accounts: places, data: transfer},
    {programAddress, accounts: given, data: Uint8Array.of(setAuthority, 2, 1, ...bytesOf(of))},
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
