// Payout addresses: seen and set. The whitelist is the operator's, and out of reach here.
import type {FastifyRequest} from 'fastify'
import {z} from 'zod'
import {displayForm} from '../../../chains/address.ts'
import {formsOf} from '../../../chains/families.ts'
import {AddressError} from '../../../chains/family.ts'
import {type ChainCode, chainCodes, chain as registered} from '../../../chains/registry.ts'
import type {App, Context} from '../app.ts'
import {chainsOf} from '../chains.ts'
import type {Data} from '../data.ts'
import {Refusal, read, show, showForm, submit} from '../form.ts'
import {type Fields, fieldsOf} from '../view.ts'
import {payoutAddressesPage, payoutAddressPage} from '../views/payout-addresses.ts'

const Params = z.object({chain: z.enum(chainCodes)})

export function payoutAddresses(app: App, context: Context): void {
  const chains = chainsOf(context)
  const form = async ({params, data}: FastifyRequest, typed: Fields, error?: string) => {
    const {chain} = read(Params, params)
    const now = (await data.payoutAddresses()).find(row => row.chain === chain)
    const mayBeOffCurve = (await formsOf(registered(chain))).doubt !== undefined
    return payoutAddressPage(chains(chain), now, typed, {error, mayBeOffCurve})
  }

  app.get('/payout-addresses', async request => {
    const {saved} = read(z.object({saved: z.enum(chainCodes).optional()}), request.query)
    const addresses = await request.data.payoutAddresses()
    const {payoutTimeoutMs} = context
    return show(request, payoutAddressesPage({addresses, chains, me: request.me, payoutTimeoutMs, saved}))
  })
  app.get('/payout-addresses/:chain', async request => {
    await request.data.requireFullRights()
    return showForm(request, await form(request, fieldsOf(request.query)))
  })
  app.post('/payout-addresses/:chain', (request, reply) => {
    const {chain} = read(Params, request.params)
    return submit(request, reply, {
      url: `/payout-addresses/${chain}`,
      fields: {
        address: z.string().trim().min(1, 'must not be empty').max(128),
        allow_off_curve: z.literal('true').optional(),
      },
      act: async ({request: form, address, allow_off_curve}) => {
        const read = await readAddress(context, request.data, chain, address, allow_off_curve !== undefined)
        await request.data.setPayoutAddress(form, chain, read)
        return `/payout-addresses?saved=${chain}`
      },
      again: (typed, error) => form(request, typed, error),
      done: ['/payout-addresses', 'To the payout addresses'],
    })
  })
}

async function readAddress(
  context: Context,
  data: Data,
  chain: ChainCode,
  address: string,
  allowOffCurve: boolean,
): Promise<string> {
  try {
    const own = (await data.ownAddress(chain)) ?? undefined
    return await displayForm(context.chains.values(), chain, address, own, {allowOffCurve})
  } catch (error) {
    if (error instanceof AddressError) throw new Refusal(`This address ${error.message}`)
    throw error
  }
}
