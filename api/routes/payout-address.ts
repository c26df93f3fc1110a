// Where payouts go.
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import {anyOwnAddress, displayForm} from '../../chains/address.ts'
import {AddressError} from '../../chains/family.ts'
import {type ChainCode, findChain} from '../../chains/registry.ts'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {chainNotEnabled, invalid, unavailable} from '../errors.ts'
import {address, chainCode, changeErrors, requestedChain, text} from '../schemas.ts'

const findOwn = statement('find_own_address', anyOwnAddress)
const setPayoutAddress = statement('set_payout_address', 'select app.set_payout_address($1, $2, $3)')

const PayoutAddress = z.object({chain: chainCode, address}).meta({id: 'PayoutAddress'})

export function payoutAddress(app: App, {db}: Context): void {
  app.put(
    '/v1/payout-address',
    {
      schema: {
        tags: ['Payouts'],
        summary: 'Register the payout address of a chain',
        description: 'Replaces the one before it for later payouts. An address of this service is refused.',
        body: z
          .object({chain: requestedChain, address: text(128)})
          .meta({examples: [{chain: 'ETH', address: '0x52908400098527886E0F7030069857D2E4169EE7'}]}),
        response: {200: PayoutAddress, ...changeErrors(422)},
      },
    },
    async ({merchantId, body}) => {
      const {address} = body
      const chain = findChain(body.chain)?.code
      if (!chain) throw chainNotEnabled(body.chain)
      const own = await db.of(merchantId).read<[string]>(findOwn, [chain])
      const read = await readAddress(chain, address, own?.[0])
      return await value(db.of(merchantId).change<[string]>(setPayoutAddress, [merchantId, chain, read]))
    },
  )
}

async function readAddress(chain: ChainCode, address: string, own: string | undefined): Promise<string> {
  try {
    return await displayForm(chain, address, own)
  } catch (error) {
    if (error instanceof AddressError) throw invalid('address', error.code, error.message)
    if (error instanceof RetryableError) throw unavailable(error.message)
    throw error
  }
}
