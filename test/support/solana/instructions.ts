// Instructions of the System and Token programs for tests: accounts that are no wallets, and lamports that arrive
// without a transfer.
import {AccountRole, type Address, address, getAddressEncoder, type Instruction} from '@solana/kit'
import {systemProgram} from '../../../devnet/solana/transaction.ts'

export const tokenProgram = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA' as Address
const nativeMint = 'So11111111111111111111111111111111111111112' as Address
const tokenAccountBytes = 165

/** A new account of the Token program with these lamports; both addresses sign. */
export function createTokenAccount(from: string, account: string, lamports: bigint): Instruction {
  const data = Buffer.alloc(52)
  data.writeBigUInt64LE(lamports, 4)
  data.writeBigUInt64LE(BigInt(tokenAccountBytes), 12)
  data.set(getAddressEncoder().encode(tokenProgram), 20)
  const accounts = [from, account].map(each => ({address: address(each), role: AccountRole.WRITABLE_SIGNER}))
  return {programAddress: systemProgram, accounts, data}
}

/** Makes it an account of wrapped SOL (InitializeAccount3). */
export function initializeTokenAccount(account: string, owner: string): Instruction {
  const data = Buffer.concat([Uint8Array.of(18), Buffer.from(getAddressEncoder().encode(address(owner)))])
  const accounts = [
    {address: address(account), role: AccountRole.WRITABLE},
    {address: nativeMint, role: AccountRole.READONLY},
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
