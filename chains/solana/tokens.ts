// Tokens of Solana: mints and token accounts of the Token program and of Token-2022, from their bytes. Promises: no
// I/O. A mint is fine only if every extension of it is known to leave transfers whole and addresses alone, or its
// operator accepted it by name.
import {createHash} from 'node:crypto'
import {ed25519} from '@noble/curves/ed25519.js'
import type {ByTreasury} from '../registry.ts'
import {addressOf, associatedTokenProgram, bytesOf, token2022Program, tokenProgram} from './address.ts'

/** A program whose mints are tokens. */
export type TokenProgram = ByTreasury['program']
export const tokenPrograms: Record<TokenProgram, string> = {token: tokenProgram, 'token-2022': token2022Program}

const programOf = (owner: string): TokenProgram | undefined =>
  (Object.keys(tokenPrograms) as TokenProgram[]).find(name => tokenPrograms[name] === owner)

/** The token account that wallets take for an owner and a mint (Associated Token Account program). */
export function associatedAccount(owner: string, mint: string, program: TokenProgram): string {
  return programAddress([owner, tokenPrograms[program], mint].map(bytesOf), associatedTokenProgram)
}

/**
 * The first address for these seeds that is no point of the curve: it belongs to the program, and no key signs for it.
 */
function programAddress(seeds: Uint8Array[], program: string): string {
  for (let bump = 255; bump >= 0; bump--) {
    const hash = createHash('sha256')
    for (const part of [...seeds, Uint8Array.of(bump), bytesOf(program), Buffer.from('ProgramDerivedAddress')])
      hash.update(part)
    const found = hash.digest()
    if (!isOnCurve(found)) return addressOf(found)
  }
  throw new RangeError(`${program} has no address for these seeds`)
}

/** As the runtime decides it (curve25519-dalek), which takes numbers that are not reduced. */
function isOnCurve(bytes: Uint8Array): boolean {
  try {
    ed25519.Point.fromBytes(bytes, true)
    return true
  } catch {
    return false
  }
}

/** An account's bytes, and the program that it belongs to. */
export interface Stored {
  owner: string
  data: Uint8Array
}

export interface TokenAccount {
  mint: string
  owner: string
  amount: bigint
  isFrozen: boolean
  /** The names of its extensions. */
  extensions: string[]
}

export interface Mint {
  program: TokenProgram
  decimals: number
  mintAuthority: string | undefined
  freezeAuthority: string | undefined
  extensions: Extension[]
  /** Of all that it says but its supply. */
  hash: string
}

export interface Extension {
  name: string
  data: Buffer
}

// Where fields are: https://github.com/solana-program/token and token-2022, interface/src/state.rs (Mint, Account).
const accountBytes = 165
const mintBytes = 82
/** Of an account that lets several keys sign: Token-2022 makes no other account that long. */
const multisigBytes = 355
/** What the byte after those of an account says, before the extensions. */
const kinds = {mint: 1, account: 2}

/** Undefined if it is no token account that is in use. */
export function parseTokenAccount(stored: Stored | undefined): TokenAccount | undefined {
  const data = stored && programOf(stored.owner) && Buffer.from(stored.data)
  if (!data || data.length < accountBytes || data.length === multisigBytes) return undefined
  if (data.length > accountBytes && data[accountBytes] !== kinds.account) return undefined
  const state = data[108]
  if (state !== 1 && state !== 2) return undefined // initialized, frozen
  return {
    mint: addressOf(data.subarray(0, 32)),
    owner: addressOf(data.subarray(32, 64)),
    amount: data.readBigUInt64LE(64),
    isFrozen: state === 2,
    extensions: extensionsIn(data).map(({name}) => name),
  }
}

/** Undefined if it is no mint. */
export function parseMint(stored: Stored | undefined): Mint | undefined {
  const program = stored && programOf(stored.owner)
  const data = program && Buffer.from(stored.data)
  if (!data || data.length < mintBytes || data[45] !== 1) return undefined
  if (data.length > mintBytes && data[accountBytes] !== kinds.mint) return undefined
  const withoutSupply = Buffer.from(data).fill(0, 36, 44)
  return {
    program,
    decimals: data[44]!,
    mintAuthority: optionalKey(data.subarray(0, 36)),
    freezeAuthority: optionalKey(data.subarray(46, 82)),
    extensions: extensionsIn(data),
    hash: createHash('sha256').update(bytesOf(stored.owner)).update(withoutSupply).digest('hex'),
  }
}

/** Of four bytes that say whether there is one, and the key. */
const optionalKey = (bytes: Buffer) => (bytes.readUInt32LE(0) ? addressOf(bytes.subarray(4)) : undefined)

/** By their numbers: token-2022, interface/src/extension/mod.rs (ExtensionType). */
const extensionNames = [
  '',
  'TransferFeeConfig',
  'TransferFeeAmount',
  'MintCloseAuthority',
  'ConfidentialTransferMint',
  'ConfidentialTransferAccount',
  'DefaultAccountState',
  'ImmutableOwner',
  'MemoTransfer',
  'NonTransferable',
  'InterestBearingConfig',
  'CpiGuard',
  'PermanentDelegate',
  'NonTransferableAccount',
  'TransferHook',
  'TransferHookAccount',
  'ConfidentialTransferFeeConfig',
  'ConfidentialTransferFeeAmount',
  'MetadataPointer',
  'TokenMetadata',
  'GroupPointer',
  'TokenGroup',
  'GroupMemberPointer',
  'TokenGroupMember',
  'ConfidentialMintBurn',
  'ScaledUiAmount',
  'Pausable',
  'PausableAccount',
  'PermissionedBurn',
]

/** After the byte of the kind: a number, a length, and so many bytes; a number of 0 is where they end. */
function extensionsIn(data: Buffer): Extension[] {
  const found: Extension[] = []
  for (let at = accountBytes + 1; at + 4 <= data.length; ) {
    const [number, length] = [data.readUInt16LE(at), data.readUInt16LE(at + 2)]
    if (number === 0) break
    const bytes = data.subarray(at + 4, at + 4 + length)
    // What may follow is not seen, so it is none that is known.
    if (bytes.length !== length) return [...found, {name: 'too long', data: bytes}]
    found.push({name: extensionNames[number] ?? `number ${number}`, data: bytes})
    at += 4 + length
  }
  return found
}

/** Why an extension is not fine; undefined if it is. */
type Judge = (data: Buffer) => string | undefined

const isNobody = (key: Buffer) => key.every(byte => byte === 0)
const fine: Judge = () => undefined
const takesFee = (data: Buffer) => data.length < 108 || data.readUInt16LE(88) > 0 || data.readUInt16LE(106) > 0

/** With these, no transfer of ours would be right: nobody can accept them. */
const never: Record<string, Judge> = {
  NonTransferable: () => 'it cannot be transferred',
  // Of two keys: who can set it, and the program.
  TransferHook: data => (isNobody(data.subarray(32)) ? undefined : 'a program of somebody runs with each transfer'),
  // Who can set it, who can take what was withheld, how much was, then two fees: epoch, most, hundredths of a percent.
  TransferFeeConfig: data =>
    takesFee(data) ? 'it takes a fee on transfers: what is paid out would not arrive whole' : undefined,
}

/** These an operator may accept, by name, and what is not here, too. */
const unlessAccepted: Record<string, Judge> = {
  MetadataPointer: fine,
  TokenMetadata: fine,
  GroupPointer: fine,
  TokenGroup: fine,
  GroupMemberPointer: fine,
  TokenGroupMember: fine,
  TransferHook: fine,
  MintCloseAuthority: data => (isNobody(data) ? undefined : 'somebody can close the mint'),
  TransferFeeConfig: data => (isNobody(data.subarray(0, 32)) ? undefined : 'somebody can set a fee on transfers'),
  PermanentDelegate: () => 'somebody can take the token from every address',
  DefaultAccountState: () => 'new accounts of it may be frozen from the beginning',
  Pausable: () => 'somebody can stop all transfers',
  ConfidentialTransferMint: () => 'amounts can be hidden, and what arrives hidden is not seen',
  InterestBearingConfig: () => 'wallets show other amounts than there are',
  ScaledUiAmount: () => 'wallets show other amounts than there are',
}
const unknown: Judge = () => 'what it does to transfers is not known'

export interface Judgement {
  extension: string
  why: string
  isAcceptable: boolean
}

/** The extensions of a mint that are not fine. */
export function judgeMint({extensions}: Pick<Mint, 'extensions'>): Judgement[] {
  return extensions.flatMap(({name: extension, data}): Judgement[] => {
    const forever = never[extension]?.(data)
    if (forever !== undefined) return [{extension, why: forever, isAcceptable: false}]
    const why = (unlessAccepted[extension] ?? unknown)(data)
    return why === undefined ? [] : [{extension, why, isAcceptable: true}]
  })
}

/** Why a mint is refused, in words; undefined if it is not. */
export function refusalOfMint(mint: Pick<Mint, 'extensions'>, accepted: readonly string[]): string | undefined {
  const refused = judgeMint(mint).filter(({extension, isAcceptable}) => !isAcceptable || !accepted.includes(extension))
  return refused.map(({extension, why}) => `its extension ${extension}: ${why}`).join('; ') || undefined
}

/** The name and the symbol in the bytes of metadata: of Metaplex, and of the extension TokenMetadata. */
export function textsIn(data: Buffer, at: number): {name: string; symbol: string} | undefined {
  const texts: string[] = []
  for (let n = 0; n < 2; n++) {
    if (at + 4 > data.length) return undefined
    const end = at + 4 + data.readUInt32LE(at)
    texts.push(
      data
        .subarray(at + 4, end)
        .toString('utf8')
        .replaceAll('\0', '')
        .trim(),
    )
    at = end
  }
  return {name: texts[0]!, symbol: texts[1]!}
}

const metaplexProgram = 'metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s'

/** Where Metaplex keeps the metadata of a mint. */
export const metadataAccount = (mint: string): string =>
  programAddress([Buffer.from('metadata'), bytesOf(metaplexProgram), bytesOf(mint)], metaplexProgram)
