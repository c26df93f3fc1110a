// Addresses of others, as people write them. Promises: an accepted address belongs to the chain and is in display form, the only form in which
// addresses of others are stored and compared.
import {type ChainSettings, formsOf} from './families.ts'
import {AddressError} from './family.ts'
import {noWallet} from './no-wallet.ts'
import {type ChainCode, chain as chainOf} from './registry.ts'

/** The statement that finds an address of ours on a chain ($1); that address shows the network. Custody makes one before anything else. */
export const anyOwnAddress = `select address from custody.address where purpose = 'treasury'
  and family = (select family from app.chain where chain = $1)`

/**
 * Forms.displayForm (family.ts) of the chain's family, of an address to which somebody is to be paid. `settings`: of all chains. Throws AddressError also if
 * what is paid there is lost.
 */
export async function displayForm(
  settings: Iterable<ChainSettings>,
  code: ChainCode,
  address: string,
  own: string | undefined,
): Promise<string> {
  const chain = chainOf(code)
  const shown = (await formsOf(chain)).displayForm(chain, address, own)
  const what = noWallet(settings, code, shown)
  if (what) throw new AddressError('invalid_address', `is ${what}: what is paid there is lost`)
  return shown
}
