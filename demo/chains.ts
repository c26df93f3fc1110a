// The local chains in the demo, of any family.
import {chain} from '../chains/registry.ts'
import type {LocalClient} from '../devnet/client.ts'
import {findLocalChain} from '../devnet/families.ts'

export const chainCodes = ['ETH', 'POLYGON', 'BTC', 'TRON', 'SOL'] as const
export type ChainCode = (typeof chainCodes)[number]
export type Chains = Record<ChainCode, LocalClient>

/** These chains of the service in this directory. */
export async function openChains<Code extends ChainCode>(
  home: string,
  codes: readonly Code[],
): Promise<Record<Code, LocalClient>> {
  const each = codes.map(async code => [code, await findLocalChain(home, code)] as const)
  return Object.fromEntries(await Promise.all(each)) as Record<Code, LocalClient>
}

/** Foreign addresses; chains of one family share theirs. */
export function newWallet<Code extends ChainCode>(chains: Record<Code, LocalClient>): Record<Code, string> {
  const addresses = new Map<string, string>()
  const each = (Object.keys(chains) as Code[]).map(code => {
    const {family} = chain(code)
    const address = addresses.get(family) ?? chains[code].newAddress()
    addresses.set(family, address)
    return [code, address] as const
  })
  return Object.fromEntries(each) as Record<Code, string>
}

/** A line for each address, with the chains that share it. */
export function addressLines(addresses: Record<ChainCode, string>): string {
  const groups = Map.groupBy(chainCodes, code => addresses[code])
  return [...groups].map(([address, codes]) => `  ${codes.join(', ').padEnd(12)}  ${address}`).join('\n')
}
