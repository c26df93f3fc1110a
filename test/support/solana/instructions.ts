// Instructions of the System and Token programs for tests: accounts that are no wallets, and lamports that arrive
// without a transfer.
import {AccountRole, type Address, address, getAddressEncoder, type Instruction} from '@solana/kit'
import {createAccount} from '../../../devnet/solana/transaction.ts'

export const tokenProgram = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA' as Address
const nativeMint = 'So11111111111111111111111111111111111111112' as Address
const tokenAccountBytes = 165

/** A new account of the Token program with these lamports; both addresses sign. */
export function createTokenAccount(from: string, account: string, lamports: bigint): Instruction {
  return createAccount(from, account, {lamports, bytes: tokenAccountBytes, owner: tokenProgram})
}

/** Makes it an account of a mint, or of wrapped SOL (InitializeAccount3). */
export function initializeTokenAccount(account: string, owner: string, mint: string = nativeMint): Instruction {
  const data = Buffer.concat([Uint8Array.of(18), Buffer.from(getAddressEncoder().encode(address(owner)))])
  const accounts = [
    {address: address(account), role: AccountRole.WRITABLE},
    {address: address(mint), role: AccountRole.READONLY},
  ]
  return {programAddress: tokenProgram, accounts, data}
}

/** All its lamports go to an address, without a transfer (CloseAccount). */
export function closeTokenAccount(account: string, to: string, owner: string): Instruction {
  const accounts = [
    {address: address(account), role: AccountRole.WRITABLE},
    {address: address(to), role: AccountRole.WRITABLE},
    {address: address(owner), role: AccountRole.READONLY_SIGNER},
  ]
  return {programAddress: tokenProgram, accounts, data: Uint8Array.of(9)}
}

/** Of a token, from one account to another (TransferChecked). */
export function transferTokens(
  {mint, decimals}: {mint: string; decimals: number},
  {from, to, owner, amount}: {from: string; to: string; owner: string; amount: bigint},
): Instruction {
  const data = Buffer.alloc(10)
  data[0] = 12
  data.writeBigUInt64LE(amount, 1)
  data[9] = decimals
  const accounts = [
    {address: address(from), role: AccountRole.WRITABLE},
    {address: address(mint), role: AccountRole.READONLY},
    {address: address(to), role: AccountRole.WRITABLE},
    {address: address(owner), role: AccountRole.READONLY_SIGNER},
  ]
  return {programAddress: tokenProgram, accounts, data}
}

/** Somebody else owns the account, or may make more of the mint, from now on (SetAuthority). */
export function setAuthority(
  of: string,
  kind: 'owner of the account' | 'maker of the mint',
  {from, to, program = tokenProgram}: {from: string; to: string; program?: string},
): Instruction {
  const data = Buffer.concat([
    Uint8Array.of(6, kind === 'owner of the account' ? 2 : 0, 1),
    Buffer.from(getAddressEncoder().encode(address(to))),
  ])
  const accounts = [
    {address: address(of), role: AccountRole.WRITABLE},
    {address: address(from), role: AccountRole.READONLY_SIGNER},
  ]
  return {programAddress: address(program), accounts, data}
}
