// Instructions of the System and Token programs for tests: accounts that are no wallets, lamports that arrive without a
// transfer, and what the issuer of a token does.
import {address, type Instruction} from '@solana/kit'
import {
  AuthorityType,
  getCloseAccountInstruction,
  getFreezeAccountInstruction,
  getInitializeAccount3Instruction,
  getSetAuthorityInstruction,
  getThawAccountInstruction,
  getTransferCheckedInstruction,
} from '@solana-program/token'
import {signer} from '../../../devnet/solana/tokens.ts'
import {createAccount} from '../../../devnet/solana/transaction.ts'

export const tokenProgram = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
/** Its units are lamports. */
export const wrappedSol = 'So11111111111111111111111111111111111111112'
/** Of the data of an account, in bytes. */
export const accountSize = 165

/** A new account of the Token program with these lamports; both addresses sign. */
export const createTokenAccount = (from: string, account: string, lamports: bigint): Instruction =>
  createAccount(from, account, {lamports, bytes: accountSize, owner: tokenProgram})

/** Makes it an account of a mint, or of wrapped SOL. */
export const initializeTokenAccount = (account: string, owner: string, mint = wrappedSol): Instruction =>
  getInitializeAccount3Instruction({account: address(account), mint: address(mint), owner: address(owner)})

/** All its lamports go to an address, without a transfer. */
export const closeTokenAccount = (account: string, to: string, owner: string): Instruction =>
  getCloseAccountInstruction({account: address(account), destination: address(to), owner: signer(owner)})

/** Of a token, from one account to another. */
export const transferTokens = (
  {mint, decimals}: {mint: string; decimals: number},
  {from, to, owner, amount}: {from: string; to: string; owner: string; amount: bigint},
): Instruction =>
  getTransferCheckedInstruction({
    ...{source: address(from), mint: address(mint), destination: address(to), authority: signer(owner)},
    ...{amount, decimals},
  })

const authorities = {
  'owner of the account': AuthorityType.AccountOwner,
  'maker of the mint': AuthorityType.MintTokens,
}

/** Somebody else owns the account, or may make more of the mint, from now on. */
export const setAuthority = (
  of: string,
  kind: keyof typeof authorities,
  {from, to, program = tokenProgram}: {from: string; to: string; program?: string},
): Instruction =>
  getSetAuthorityInstruction(
    {owned: address(of), owner: signer(from), authorityType: authorities[kind], newAuthority: address(to)},
    {programAddress: address(program)},
  )

/** The issuer lets nothing leave or reach an account, or lets it again. */
export function freezeAccount(
  {mint, program}: {mint: string; program: string},
  {account, by, isFrozen}: {account: string; by: string; isFrozen: boolean},
): Instruction {
  const accounts = {account: address(account), mint: address(mint), owner: signer(by)}
  const of = {programAddress: address(program)}
  return isFrozen ? getFreezeAccountInstruction(accounts, of) : getThawAccountInstruction(accounts, of)
}
