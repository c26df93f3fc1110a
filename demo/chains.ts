// The local chains in the demo, of any family.
import {chain} from '../chains/registry.ts'
import type {LocalClient} from '../devnet/client.ts'
import {findLocalChain} from '../devnet/families.ts'

export const chainCodes = ['ETH', 'POLYGON', 'BTC', 'TRON', 'SOL'] as const
export type ChainCode = (typeof chainCodes)[number]
export type Chains = Record<ChainCode, LocalClient>

/** The chains of the service in this directory. */
export async function openChains(home: string): Promise<Chains> {
  const each = chainCodes.map(async code => [code, await findLocalChain(home, code)] as const)
  return Object.fromEntries(await Promise.all(each)) as Chains
}

/** Foreign addresses; chains of one family share theirs. */
export function newWallet(chains: Chains): Record<ChainCode, string> {
  const addresses = new Map<string, string>()
  const each = chainCodes.map(code => {
    const {family} = chain(code)
    const address = addresses.get(family) ?? chains[code].newAddress()
    addresses.set(family, address)
    return [code, address] as const
  })
  return Object.fromEntries(each) as Record<ChainCode, string>
}

/** A line for each address, with the chains that share it. */
export function addressLines(addresses: Record<ChainCode, string>): string {
  const groups = Map.groupBy(chainCodes, code => addresses[code])
  return [...groups].map(([address, codes]) => `  ${codes.join(', ').padEnd(12)}  ${address}`).join('\n')
}
