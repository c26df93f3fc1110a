// Addresses of others, as people write them. Promises: an accepted address belongs to the chain and is in display form,
// the only form in which addresses of others are stored and compared.
import {type ChainSettings, formsOf} from './families.ts'
import {AddressError} from './family.ts'
import {noWallet} from './no-wallet.ts'
import {type ChainCode, chain as chainOf} from './registry.ts'

/**
 * The statement that finds an address of ours on a chain ($1); that address shows the network. Custody makes one before
 * anything else.
 */
export const anyOwnAddress = `select address from custody.address where purpose = 'treasury'
  and family = (select family from app.chain where chain = $1)`

interface Options {
  /** An address that is rather mistyped than meant is taken all the same. */
  allowOffCurve?: boolean
}

/**
 * Forms.displayForm (family.ts) of the chain's family, of an address to which somebody is to be paid. `settings`: of
 * all chains. Throws AddressError also if what is paid there is lost, or probably is.
 */
export async function displayForm(
  settings: Iterable<ChainSettings>,
  code: ChainCode,
  address: string,
  own: string | undefined,
  {allowOffCurve = false}: Options = {},
): Promise<string> {
  const chain = chainOf(code)
  const forms = await formsOf(chain)
  const shown = forms.displayForm(chain, address, own)
  const what = noWallet(settings, code, shown)
  if (what) throw new AddressError('invalid_address', `is ${what}: what is paid there is lost`)
  const doubt = allowOffCurve ? undefined : await forms.doubt?.(shown)
  if (doubt) throw new AddressError('off_curve', doubt)
  return shown
}
