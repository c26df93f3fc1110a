// Chains whose transactions expire, by height or by time: the made-up family.
import {fee, parseTransaction} from '../../../chains/madeup/block.ts'
import type {MadeUpSettings} from '../../../chains/madeup/settings.ts'
import {open} from '../../../jobs/payouts/madeup/family.ts'
import {endsByHeight, endsByTime, type Rules} from '../chain.ts'
import type {Kind} from './kind.ts'

function expiry(name: 'height' | 'time', rules: Rules): Kind {
  const chain = 'MADEUP'
  return {
    name,
    chain,
    token: 'MADE',
    settings: {MADEUP_RPC_URL: 'http://model', MADEUP_FEE_BUDGET: '100000'},
    unit: 1n,
    fee,
    rules,
    expires: true,
    parse: raw => {
      const {txid, from, outputs, lifetime} = parseTransaction(raw)
      return {
        txid,
        raw,
        from,
        fee,
        lifetime,
        outputs: outputs.map(({to, amount}) => ({to, token: 'MADE', amount: BigInt(amount)})),
      }
    },
    worker: settings => open(settings.chains.get(chain) as MadeUpSettings),
    intent: ({id, kind, payoutId}) =>
      kind === 'payout'
        ? {intent: 'pay_madeup', payout_id: payoutId}
        : kind === 'withdrawal'
          ? {intent: 'withdraw_madeup', outgoing_payment_id: id}
          : {intent: 'sweep_madeup', chain, outgoing_payment_id: id},
    feeDetails: () => ({}),
    outsider: n => `made1${String(n).repeat(40)}`,
    prepare: `update app.chain set ends_by = '${name}' where chain = '${chain}'`,
  }
}

export const height: Kind = expiry('height', endsByHeight)
export const time: Kind = expiry('time', endsByTime)
