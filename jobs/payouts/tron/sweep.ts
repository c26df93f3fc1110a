// How much of each address is swept. Promises: of TRX, an address without gas whose bytes are free is left empty; of
// another one, what its sweep may cost stays until it is paid. Of a token all goes, and the address pays with TRX that
// the treasury sends it: for the energy, and always for the bytes, too, since whether they are free is known only when
// a block takes the transaction. What is left of it pays for its next sweep.
import {least} from '../../../base/bigints.ts'
import {eachOf} from '../../../base/each-of.ts'
import {mostTokenBytesFee} from '../../../chains/tron/bytes.ts'
import type {Prices} from '../../../chains/tron/client.ts'
import {freeGas, type Holding, type Sweep} from '../accounts/holdings.ts'
import type {Sweeping} from '../accounts/rules.ts'
import type {Context} from '../context.ts'
import {sweepEnergyFee} from './fees.ts'
import {sweepFees, type Tron} from './node.ts'
import {blockIfRefused, tokenBalance, tryTransfer} from './tokens.ts'

export async function nativeSweeps(to: Context, chain: Tron, holdings: Holding[]): Promise<Sweep[]> {
  const addresses = holdings.map(({address}) => address)
  const fees = await sweepFees(chain, addresses, await paying(to, chain, addresses))
  return holdings.map(({address, amount}, i) => ({address, amount: BigInt(amount) - fees[i]!, maxFee: fees[i]!}))
}

/**
 * Those that pay, whatever the node says: a sweep of theirs expired within a day (all accounts share a limit of free
 * bytes, too); or they have gas, or get some, and the sweep of a token may use up the free bytes first. Then their fee
 * would be burnt of the gas, which is the operator's.
 */
async function paying({pool}: Context, {settings}: Tron, addresses: string[]): Promise<Set<string>> {
  const {rows} = await pool.query<{source: string}>(
    `select distinct source from app.outgoing_payment
     where chain = $1 and source = any($2) and kind = 'sweep' and outcome = 'expired' and final_at > clock_timestamp() - interval '1 day'
     union select address from app.gas where chain = $1 and address = any($2) and amount > 0
     union select recipient from app.outgoing_payment where chain = $1 and recipient = any($2) and kind = 'fund' and status <> 'final'`,
    [settings.chain.code, addresses],
  )
  return new Set(rows.map(({source}) => source))
}

/** Those whose coins are leaving, perhaps for nothing: the sweep of a token could use up the free bytes before. */
async function leaving({pool}: Context, {settings}: Tron, addresses: string[]): Promise<Set<string>> {
  const {chain} = settings
  const {rows} = await pool.query<{source: string}>(
    `select source from app.outgoing_payment where chain = $1 and token = $2 and source = any($3) and kind = 'sweep' and status <> 'final'`,
    [chain.code, chain.assets[0].token, addresses],
  )
  return new Set(rows.map(({source}) => source))
}

/**
 * One that has what the transfer burns now goes with that; one that has less first gets what a contract may cost that
 * becomes busier. An address that the token does not let go moves nothing, and is blocked.
 */
export async function tokenSweeps(
  to: Context,
  chain: Tron,
  prices: Prices,
  {token, treasury}: Sweeping,
  holdings: Holding[],
): Promise<(Sweep | undefined)[]> {
  const bytesFee = mostTokenBytesFee(chain.settings)
  const addresses = holdings.map(({address}) => address)
  const free = await freeGas(to, chain.settings.chain.code, addresses)
  const isLeaving = await leaving(to, chain, addresses)
  const withGas = holdings.map((holding, i) => ({...holding, has: free[i]!}))
  return await eachOf(withGas, async ({address, amount: held, has}): Promise<Sweep | undefined> => {
    if (isLeaving.has(address)) return
    const holds = await tokenBalance(chain, token, address)
    const amount = least(BigInt(held), holds)
    const transfer = {token, amount, source: address, recipient: treasury}
    const tried = await tryTransfer(chain, transfer)
    if (tried.failure) {
      if (tried.failure.isSure) await blockIfRefused(to, chain, transfer)
      return {address, amount: 0n, maxFee: 0n, holds}
    }
    chain.energy.set(token, tried.energy)
    const {expected, limit} = sweepEnergyFee(tried.energy, prices)
    const asked = limit + bytesFee
    if (has >= expected + bytesFee) return {address, amount, holds, maxFee: least(asked, has)}
    return {address, amount, holds, maxFee: asked, lacks: asked - has}
  })
}
