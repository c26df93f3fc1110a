// Checks with the tokens' mints that they are what the settings say, before anything is moved. Promises: a token is
// refused only because of its mint, and the message names the token and what to do. A node that does not respond proves
// nothing.
import type {SolanaNode} from './client.ts'
import {type SolanaSettings, splToken} from './settings.ts'
import {parseMint, refusalOfMint, type Stored} from './tokens.ts'

/** Why one of a chain's tokens is refused; undefined if none is. Throws RetryableError if the node cannot be asked. */
export async function refusedToken(settings: SolanaSettings, node: SolanaNode): Promise<string | undefined> {
  for (const {token, stored} of await mintsOf(settings, node)) {
    const why = refusal(settings, token, stored)
    if (why !== undefined) {
      const {code} = settings.chain
      const {contract} = splToken(settings, token)
      return `${code} ${token} cannot be followed: its mint ${contract} was asked, and ${why}; correct ${code}_${token}_CONTRACT`
    }
  }
}

/** Changes with all that a mint says, but its supply; of each token. */
export async function mintHashes(settings: SolanaSettings, node: SolanaNode): Promise<Map<string, string>> {
  const mints = await mintsOf(settings, node)
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
  {tokens}: SolanaSettings,
  node: SolanaNode,
): Promise<{token: string; stored: Stored | undefined}[]> {
  if (!tokens.size) return []
  const {accounts} = await node.accounts([...tokens.keys()], 'confirmed')
  return [...tokens.values()].map((token, i) => ({token, stored: accounts[i]}))
}
