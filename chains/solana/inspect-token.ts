// What the mint of a token is, before an operator adds it (sluice token add). Promises: nothing is sent. A mint that
// cannot be paid out exactly is refused in words, and so is every extension that is not known to be fine, unless the
// operator accepts it by name. Tokens of one program all move alike, so no transfer is tried.
import {PermanentError} from '../../base/errors.ts'
import {possibleDecimals, tokenNames} from '../contract-tokens.ts'
import type {InspectedToken} from '../family.ts'
import {bytesOf, nativeMints} from './address.ts'
import {SolanaNodes} from './client.ts'
import type {SolanaSettings} from './settings.ts'
import {judgeMint, type Mint, metadataAccount, parseMint, refusalOfMint, type Stored, textsIn} from './tokens.ts'

const timeoutMs = 20_000

export async function inspectToken(
  settings: SolanaSettings,
  contract: string,
  accepts: string[],
): Promise<InspectedToken> {
  bytesOf(contract) // throws AddressError
  if (nativeMints.includes(contract))
    throw new PermanentError(
      `${contract} is wrapped SOL, whose accounts hold lamports as their amount: it is no token here`,
    )
  const nodes = new SolanaNodes(settings, {timeoutMs})
  const {accounts} = await nodes.ask(node => node.accounts([contract, metadataAccount(contract)], 'confirmed'))
  const mint = parseMint(accounts[0])
  if (!mint)
    throw new PermanentError(
      `there is no mint at ${contract} on ${settings.chain.code} (${settings.network}); look the address up at the token's issuer`,
    )
  refuse(contract, mint, accepts)
  const {hash: codeHash} = mint
  const decimals = possibleDecimals(contract, BigInt(mint.decimals))
  const {name, symbol} = namesOf(mint, accounts[1])
  return {
    contract,
    name,
    symbol,
    decimals,
    codeHash,
    sweeps: [{by: 'treasury', program: mint.program, accepts}],
    facts: () => ({
      'the mint says': `${name ?? 'no name'}, ${symbol ?? 'no symbol'}, ${decimals} decimals`,
      'its program': mint.program === 'token' ? 'Token' : 'Token-2022',
      'its issuer can': powersOf(mint),
      'you accept': accepts.join(', ') || 'nothing that is not usual',
      'a transfer': 'arrives whole: its program moves it, and takes no fee',
      'swept by': 'the treasury, which pays; the address signs, too',
      'a sweep costs': `two signatures; ${settings.chain.code}_MAX_PRIORITY_FEE at most for its place in a block`,
    }),
  }
}

function refuse(contract: string, mint: Mint, accepts: string[]): void {
  const judged = judgeMint(mint)
  const needless = accepts.find(name => !judged.some(({extension, isAcceptable}) => isAcceptable && extension === name))
  if (needless !== undefined && !refusalOfMint(mint, accepts))
    throw new PermanentError(`${contract} has no extension ${needless} that has to be accepted`)
  const why = refusalOfMint(mint, accepts)
  if (why === undefined) return
  const open = judged.filter(({extension, isAcceptable}) => isAcceptable && !accepts.includes(extension))
  const way =
    open.length > 0 && open.length === judged.filter(({extension}) => !accepts.includes(extension)).length
      ? `; if you trust its issuer with that: ${open.map(({extension}) => `--accept ${extension}`).join(' ')}`
      : ''
  throw new PermanentError(`${contract} is refused. ${why}${way}`)
}

function powersOf({mintAuthority, freezeAuthority, extensions}: Mint): string {
  const of = judgeMint({extensions}).map(({extension}) => extension)
  const powers = [
    ...(mintAuthority ? ['make more of it'] : []),
    ...(freezeAuthority ? ['freeze an address'] : []),
    ...of,
  ]
  return powers.join(', ') || 'nothing'
}

/** By its extension, else by Metaplex. What is no text for people is left out. */
function namesOf(
  {extensions}: Mint,
  metaplex: Stored | undefined,
): {name: string | undefined; symbol: string | undefined} {
  const own = extensions.find(({name}) => name === 'TokenMetadata')
  // After the keys of who can change it, and of the mint; of Metaplex, after one byte more.
  const said = own ? textsIn(own.data, 64) : metaplex && textsIn(Buffer.from(metaplex.data), 65)
  const text = (given = '') => (tokenNames.displayName.pattern.test(given) ? given : undefined)
  return {name: text(said?.name), symbol: text(said?.symbol)}
}
