// Moves outputs of one merchant's addresses to the treasury, in a separate transaction: for payouts with too many
// outputs, and for collect.ts.
import type {BitcoinSettings} from '../../../chains/bitcoin/settings.ts'
import {isWorthItsFee} from '../../../chains/chain-settings.ts'
import type {Context} from '../context.ts'
import {freeOutputs} from './outputs.ts'
import type {Bitcoin} from './plan-attempt.ts'
import {ratesOf} from './rates.ts'
import {costOfInput, type Failure, mostInputs, type Output, type Price, selectAll} from './select.ts'

interface Of {
  /** The payout that waits for it; null for none. */
  id: string | null
  chain: string
  merchantId: string
}

/** Resolves to why the sweep was not begun; undefined if it was. */
export async function beginSweep(
  {pool}: Context,
  {id, chain, merchantId}: Of,
  outputs: Output[],
  price: Price,
  settings: BitcoinSettings,
): Promise<Failure | string | undefined> {
  const found = selectAll(outputs, price)
  if (!('inputs' in found)) return found
  // Custody would not sign a sweep with a higher fee.
  if (!isWorthItsFee(settings, {amount: found.change, maxFee: found.fee})) return {aboveCap: true}
  const {rows} = await pool.query<{short: string | null}>(
    'select app.begin_output_sweep($1, $2, $3, $4, $5) as short',
    [id, chain, merchantId, found.inputs.map(({outpoint}) => outpoint), String(found.fee)],
  )
  return rows[0]!.short ?? undefined
}

/** Merchants whose addresses together hold enough. One transaction sweeps a merchant's outputs, the largest first. */
const collectable = `
  select merchant_id as id from app.free_output
  where chain = $1 and merchant_id is not null
  group by merchant_id having sum(amount) >= $2 limit 20`

export async function collectMerchants(to: Context, {settings, node}: Bitcoin): Promise<void> {
  const {code} = settings.chain
  for (const above of settings.collectAbove.values()) {
    const {rows} = await to.pool.query<{id: string}>(collectable, [code, String(above)])
    if (!rows.length) return
    const rates = ratesOf(await node.feeRates(), settings)
    if (!rates) return // tried again when fees have fallen
    const price = {rate: rates.first, cap: settings.maxFeeRate}
    for (const {id} of rows) {
      const outputs = await freeOutputs(to.pool, code, id)
      const worth = outputs.filter(({amount}) => amount > costOfInput(price.rate)).slice(0, mostInputs)
      const why = await beginSweep(to, {id: null, chain: code, merchantId: id}, worth, price, settings)
      if (typeof why === 'string')
        to.log.warn({chain: code, merchant: id}, `addresses are not collected: ${why}; send money to the treasury`)
    }
  }
}
