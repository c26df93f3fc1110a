// Addresses of Solana: 32 bytes, as a rule a public key, written in base58 without a checksum. Promises: a text that is
// accepted is the only one of its address, and so its display form. Addresses that are no point of the curve are
// accepted: no key signs for them, but multisignature wallets have such addresses and receive there.
import {fromBase58, toBase58} from '../base58.ts'
import {type TokenSettings, tokenAt} from '../contract-tokens.ts'
import {AddressError} from '../family.ts'

/** The text of an address, given as its 32 bytes. Throws RangeError if they are none. */
export function addressOf(bytes: Uint8Array): string {
  if (bytes.length !== 32) throw new RangeError('an address has 32 bytes')
  return toBase58(bytes)
}

/** The 32 bytes of an address that people wrote. Throws AddressError. */
export function bytesOf(address: string): Buffer {
  const bytes = address.length <= 44 ? fromBase58(address) : undefined
  if (bytes?.length !== 32)
    throw new AddressError('invalid_address', 'must be 32 to 44 letters and digits (base58) that stand for 32 bytes')
  return bytes
}

/** Programs, sysvars and mints are no wallets. */
export function noWallet(address: string, chains: TokenSettings[]): string | undefined {
  return notWallets.find(([known]) => known === address)?.[1] ?? tokenAt(chains, address)
}

export const systemProgram = '11111111111111111111111111111111'
export const computeBudgetProgram = 'ComputeBudget111111111111111111111111111111'
export const tokenProgram = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
export const token2022Program = 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb'
const wrappedSol = 'So11111111111111111111111111111111111111112'
/** Wrapped SOL, of each program of tokens: accounts hold lamports as their amount. */
export const nativeMints = [wrappedSol, '9pan9bMn5HatX4EJdBwg9VgCa7Uz5HL8N1m5D3NdXej9']
export const associatedTokenProgram = 'ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL'

/** What every network has. Of any other address, only a node can say whether it is a wallet. */
const notWallets: [address: string, what: string][] = [
  // The crate solana-sdk-ids of https://github.com/anza-xyz/solana-sdk (sdk-ids/src/lib.rs).
  [systemProgram, 'the System program'],
  [computeBudgetProgram, 'the Compute Budget program'],
  ['AddressLookupTab1e1111111111111111111111111', 'the Address Lookup Table program'],
  ['BPFLoader1111111111111111111111111111111111', 'a loader of programs'],
  ['BPFLoader2111111111111111111111111111111111', 'a loader of programs'],
  ['BPFLoaderUpgradeab1e11111111111111111111111', 'a loader of programs'],
  ['LoaderV411111111111111111111111111111111111', 'a loader of programs'],
  ['NativeLoader1111111111111111111111111111111', 'a loader of programs'],
  ['Config1111111111111111111111111111111111111', 'the Config program'],
  ['Ed25519SigVerify111111111111111111111111111', 'the Ed25519 program'],
  ['KeccakSecp256k11111111111111111111111111111', 'the Secp256k1 program'],
  ['Secp256r1SigVerify1111111111111111111111111', 'the Secp256r1 program'],
  ['Feature111111111111111111111111111111111111', 'the Feature program'],
  ['Stake11111111111111111111111111111111111111', 'the Stake program'],
  ['StakeConfig11111111111111111111111111111111', 'the configuration of stakes'],
  ['Vote111111111111111111111111111111111111111', 'the Vote program'],
  ['ZkTokenProof1111111111111111111111111111111', 'the ZK Token Proof program'],
  ['ZkE1Gama1Proof11111111111111111111111111111', 'the ZK ElGamal Proof program'],
  ['1nc1nerator11111111111111111111111111111111', 'the incinerator'],
  ['Sysvar1111111111111111111111111111111111111', 'the owner of the sysvars'],
  ['SysvarC1ock11111111111111111111111111111111', 'a sysvar'],
  ['SysvarEpochRewards1111111111111111111111111', 'a sysvar'],
  ['SysvarEpochSchedu1e111111111111111111111111', 'a sysvar'],
  ['SysvarFees111111111111111111111111111111111', 'a sysvar'],
  ['Sysvar1nstructions1111111111111111111111111', 'a sysvar'],
  ['SysvarLastRestartS1ot1111111111111111111111', 'a sysvar'],
  ['SysvarRecentB1ockHashes11111111111111111111', 'a sysvar'],
  ['SysvarRent111111111111111111111111111111111', 'a sysvar'],
  ['SysvarRewards111111111111111111111111111111', 'a sysvar'],
  ['SysvarS1otHashes111111111111111111111111111', 'a sysvar'],
  ['SysvarS1otHistory11111111111111111111111111', 'a sysvar'],
  ['SysvarStakeHistory1111111111111111111111111', 'a sysvar'],
  // https://github.com/solana-program: token, token-2022, associated-token-account, memo.
  [tokenProgram, 'the Token program'],
  [token2022Program, 'the Token-2022 program'],
  [associatedTokenProgram, 'the Associated Token Account program'],
  ['Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo', 'the Memo program'],
  ['MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr', 'the Memo program'],
  // Mints that people take for wallets: of wrapped SOL; Circle's (https://developers.circle.com, addresses of USDC on
  // mainnet and devnet); Tether's.
  [wrappedSol, 'the mint of wrapped SOL'],
  ['EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v', 'the mint of USDC'],
  ['4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU', 'the mint of USDC on devnet'],
  ['Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB', 'the mint of USDT'],
]
