// collect.ts for a chain of accounts: each address that holds enough gets its own sweep.
import type {Context} from '../context.ts'
import {offer} from './fees.ts'
import type {Evm} from './node.ts'
import {beginSweeps, sized} from './sweep.ts'

const batch = 200

// Leaves out addresses that are being swept, and those whose last sweep failed: another try would only cost again.
const collectable = `
  select h.address, h.amount from app.holding h
  where h.chain = $1 and h.token = $2 and h.amount >= $3 and h.amount > 0
    and not exists (select from app.outgoing_payment s where s.chain = h.chain and s.source = h.address and s.token = h.token and s.kind = 'sweep'
      and (s.status <> 'final' or (s.outcome <> 'done' and s.final_at > clock_timestamp() - interval '1 day')))
  order by h.amount desc limit ${batch}`

export async function collectToken(to: Context, chain: Evm, token: string, above: bigint): Promise<void> {
  const {code} = chain.settings.chain
  const {rows} = await to.pool.query<{address: string; amount: string}>(collectable, [code, token, String(above)])
  if (!rows.length) return
  const fees = offer(await chain.node.feeMarket(), chain.settings.maxFeePerGas)
  if (!fees) return // tried again when fees have fallen
  const sweeps = await sized(chain, token, rows, fees.maxFeePerGas)
  const short = await beginSweeps(to.pool, {id: null, chain: code, token}, sweeps)
  if (short) to.log.warn({chain: code, token}, `addresses are not collected: ${short}; send money to the treasury`)
}
