// Addresses at which what is paid is lost: nobody has a key for them, or they are programs that keep it. Promises: an
// address is named only if that is certain without asking a node. Where a payment begins, and again before it is
// signed, it is refused there: payout addresses, the whitelist, withdrawals, custody.
import {type ChainSettings, familyOf} from './families.ts'
import {type ChainCode, chain} from './registry.ts'

/**
 * What an address of a chain is, if it is no wallet, such as "the zero address". `settings`: of the chains; their
 * contracts are none.
 */
export function noWallet(settings: Iterable<ChainSettings>, code: ChainCode, address: string): string | undefined {
  const {family} = chain(code)
  return familyOf({family}).noWallet?.(
    address,
    [...settings].filter(each => each.family === family),
  )
}
