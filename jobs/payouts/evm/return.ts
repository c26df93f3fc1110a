// The transactions of a return on a chain of accounts. An unattributed deposit is swept to the treasury like a merchant's, then goes to its
// destination like a withdrawal. Beginning is safe to repeat: each step is one SQL function that checks whether it is due.
import {beginReturnStep} from '../accounts.ts'
import {type Context, type ReturnStep, retryMs, type Wait} from '../context.ts'
import {nativeSweep} from './fees.ts'
import {sweepGas} from './gas.ts'
import {balancesOf, type Evm} from './node.ts'
import {offered, paymentFee} from './offered.ts'
import {tokenRefusal} from './refusals.ts'
import {isWorth} from './sweep.ts'

/** What prevents it; undefined once it has begun. */
export async function beginReturn(to: Context, chain: Evm, of: ReturnStep): Promise<Wait | undefined> {
  if (of.step === 'withdrawal') return await withdraw(to, chain, of)
  const fees = await offered(chain)
  return 'reason' in fees ? fees : await sweep(to, chain, of, fees.maxFeePerGas)
}

async function sweep(to: Context, chain: Evm, of: ReturnStep, feePerGas: bigint): Promise<Wait | undefined> {
  const {depositId, token, address, amount, treasury} = of
  const [balance] = await balancesOf(chain, token, [address])
  if (balance! < amount)
    return {reason: 'not_there', detail: `the address holds ${balance} base units of ${token}`, ms: retryMs.soon}
  const isNative = token === chain.native
  const maxFee = feePerGas * (await sweepGas(chain, {token, from: address, treasury}))
  const moved = isNative ? nativeSweep({balance: balance!, holding: amount, fee: maxFee}) : amount
  const isTooLittle = !isNative && amount < chain.settings.sweepMin.get(token)!
  if (isTooLittle || !isWorth(chain, {token, feePerGas}, {amount: moved, maxFee}))
    return {
      reason: 'not_worth_moving',
      detail: `moving ${amount} base units may cost ${maxFee} wei, which is too much for the amount; ${isNative ? 'SWEEP_FEE_PERCENT sets' : 'SWEEP_MIN and TOKEN_SWEEP_FEE set'} the limit`,
      ms: retryMs.soon,
    }
  const refused = await tokenRefusal(to, chain, token)
  if (refused) return refused
  return await beginReturnStep(to, 'begin_return_sweep($1, $2, $3)', [depositId, String(moved), String(maxFee)])
}

async function withdraw(to: Context, chain: Evm, of: ReturnStep): Promise<Wait | undefined> {
  const {depositId, token, amount, treasury: source, destination: recipient} = of
  const networkFee = await paymentFee(chain, {token, amount, source, recipient})
  if (typeof networkFee === 'object') return networkFee
  return await beginReturnStep(to, 'begin_return_withdrawal($1, $2)', [depositId, String(networkFee)])
}
