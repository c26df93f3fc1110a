// Where payouts go.
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import {text} from '../../base/text.ts'
import {anyOwnAddress, displayForm} from '../../chains/address.ts'
import type {ChainSettings} from '../../chains/families.ts'
import {AddressError} from '../../chains/family.ts'
import {type ChainCode, findChain} from '../../chains/registry.ts'
import {PayoutAddressState} from '../../reading/balances.ts'
import {address, chainCode, requestedChain} from '../../reading/fields.ts'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {changeErrors, errors} from '../error-codes.ts'
import {ApiError, chainNotEnabled, invalid, unavailable} from '../errors.ts'

const findOwn = statement('find_own_address', anyOwnAddress)
const setPayoutAddress = statement('set_payout_address', 'select app.set_payout_address($1, $2, $3)')

const listPayoutAddresses = statement(
  'list_payout_addresses',
  `select json_build_object('payout_addresses', app.read_payout_addresses($1))::text`,
)

const PayoutAddress = z.object({chain: chainCode, address}).meta({id: 'PayoutAddress'})

const PayoutAddresses = z.object({payout_addresses: z.array(PayoutAddressState)})

export function payoutAddress(app: App, {db, chains}: Context): void {
  app.get(
    '/v1/payout-addresses',
    {
      schema: {
        tags: ['Payouts'],
        summary: 'List the payout addresses',
        operationId: 'listPayoutAddresses',
        description:
          'Where payouts of each chain go, and whether the operator has approved it. A payout to another address waits.',
        response: {200: PayoutAddresses.describe('All payout addresses.'), ...errors()},
      },
    },
    ({merchantId}) => value(db.of(merchantId).read<[string]>(listPayoutAddresses, [merchantId])),
  )

  app.put(
    '/v1/payout-address',
    {
      config: {scope: 'payouts'},
      schema: {
        tags: ['Payouts'],
        summary: 'Register the payout address of a chain',
        operationId: 'setPayoutAddress',
        description:
          'Replaces the one before it for later payouts. An address of this service is refused, and one at which what is paid is lost. On a chain that is no longer enabled, it ' +
          'can be set while a balance, or a payout under way, is left there.',
        body: z
          .object({
            chain: requestedChain,
            address: text(128),
            allow_off_curve: z
              .boolean()
              .optional()
              .describe(
                'True if an address on Solana that is no point of the curve is meant, such as the vault of a multisignature wallet.',
              ),
          })
          .meta({examples: [{chain: 'ETH', address: '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'}]}),
        response: {
          200: PayoutAddress.describe('It is registered.'),
          ...changeErrors('chain_not_enabled', 'unprocessable'),
        },
      },
    },
    async ({merchantId, body}) => {
      const {address, allow_off_curve: allowOffCurve = false} = body
      const chain = findChain(body.chain)?.code
      if (!chain) throw chainNotEnabled(body.chain)
      const own = await db.of(merchantId).read<[string]>(findOwn, [chain])
      const read = await readAddress([...chains.values()], chain, address, own?.[0], allowOffCurve)
      return await value(db.of(merchantId).change<[string]>(setPayoutAddress, [merchantId, chain, read]))
    },
  )
}

async function readAddress(
  settings: ChainSettings[],
  chain: ChainCode,
  address: string,
  own: string | undefined,
  allowOffCurve: boolean,
): Promise<string> {
  try {
    return await displayForm(settings, chain, address, own, {allowOffCurve})
  } catch (error) {
    if (error instanceof AddressError && error.code === 'off_curve')
      throw new ApiError('unprocessable', `the address ${error.message}: then send "allow_off_curve": true`)
    if (error instanceof AddressError) throw invalid('address', error.code, error.message)
    if (error instanceof RetryableError) throw unavailable(error.message)
    throw error
  }
}
