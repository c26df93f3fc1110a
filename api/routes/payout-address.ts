// Where payouts go.
import {getAddress, isAddress, zeroAddress} from 'viem'
import {z} from 'zod'
import {type ChainCode, findChain} from '../../chains/registry.ts'
import type {App, Context} from '../app.ts'
import {statement, value} from '../database.ts'
import {invalid} from '../errors.ts'
import {address, chainCode, changeErrors, text} from '../schemas.ts'

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
          .object({chain: chainCode, address: text(128)})
          .meta({examples: [{chain: 'ETH', address: '0x52908400098527886E0F7030069857D2E4169EE7'}]}),
        response: {200: PayoutAddress, ...changeErrors(422)},
      },
    },
    ({merchantId, body}) =>
      value(db.change<[string]>(setPayoutAddress, [merchantId, body.chain, displayForm(body.chain, body.address)])),
  )
}

/** The address in its display form. Throws 400 where it is none of the chain. (Chains that cannot run are refused as not enabled.) */
function displayForm(chain: ChainCode, address: string): string {
  if (findChain(chain)?.family !== 'evm') return address
  const digits = address.slice(2)
  const isMixedCase = digits !== digits.toLowerCase() && digits !== digits.toUpperCase()
  if (!/^0x[0-9a-fA-F]{40}$/.test(address)) throw invalid('address', 'invalid_address', 'must be 0x and 40 hex digits')
  if (isMixedCase && !isAddress(address, {strict: true}))
    throw invalid('address', 'invalid_checksum', 'is mistyped: its upper and lower case do not match (EIP-55)')
  if (BigInt(address) === BigInt(zeroAddress))
    throw invalid('address', 'invalid_address', 'must not be the zero address')
  return getAddress(`0x${digits.toLowerCase()}`)
}
