// Checks with the tokens' mints that they are what the settings say, before anything is moved. Promises: a token is
// refused only because of its mint, and the message names the token and what to do. A node that does not respond proves
// nothing.
import {accountsPerRequest, type SolanaNode} from './client.ts'
import {type SolanaSettings, splToken} from './settings.ts'
import {parseMint, refusalOfMint, type Stored} from './tokens.ts'

/** Why one of these tokens is refused; undefined if none is. Throws RetryableError if the node cannot be asked. */
export async function refusedToken(
  settings: SolanaSettings,
  node: SolanaNode,
  tokens = [...settings.tokens.values()],
): Promise<string | undefined> {
  for (const {token, stored} of await mintsOf(settings, node, tokens)) {
    const why = refusal(settings, token, stored)
    if (why === undefined) continue
    const {code, assets} = settings.chain
    const {contract} = splToken(settings, token)
    const way = assets.find(asset => asset.token === token)?.isAdded
      ? 'ask its issuer, or have it count no more: sluice token disable'
      : `correct ${code}_${token}_CONTRACT`
    return `${code} ${token} cannot be followed: its mint ${contract} was asked, and ${why}; ${way}`
  }
}

/** Changes with all that a mint says, but its supply; of each token. */
export async function mintHashes(settings: SolanaSettings, node: SolanaNode): Promise<Map<string, string>> {
  const mints = await mintsOf(settings, node, [...settings.tokens.values()])
  return new Map(mints.map(({token, stored}) => [token, parseMint(stored)?.hash ?? 'no mint']))
}

function refusal(settings: SolanaSettings, token: string, stored: Stored | undefined): string | undefined {
  const {decimals, sweep} = splToken(settings, token)
  const mint = parseMint(stored)
  if (!mint) return 'there is no mint at this address'
  if (mint.program !== sweep.program) return `it belongs to the program ${mint.program}, not ${sweep.program}`
  if (mint.decimals !== decimals) return `it has ${mint.decimals} decimals, not ${decimals}`
  return refusalOfMint(mint, sweep.accepts)
}

async function mintsOf(
  settings: SolanaSettings,
  node: SolanaNode,
  tokens: string[],
): Promise<{token: string; stored: Stored | undefined}[]> {
  const found: {token: string; stored: Stored | undefined}[] = []
  for (let i = 0; i < tokens.length; i += accountsPerRequest) {
    const some = tokens.slice(i, i + accountsPerRequest)
    const {accounts} = await node.accounts(
      some.map(token => splToken(settings, token).contract),
      'confirmed',
    )
    found.push(...some.map((token, n) => ({token, stored: accounts[n]})))
  }
  return found
}
