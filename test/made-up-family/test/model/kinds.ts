// The kinds of chains of the model, one for each way in which attempts end. Each gives the rules of its chain, reads signed bytes, and has the part of
// the worker that belongs to its family, with a network that is the model's chain.
import {fee as madeUpFee, parseTransaction as parseMadeUp} from '../../chains/madeup/block.ts'
import type {MadeUpSettings} from '../../chains/madeup/settings.ts'
import type {ChainCode} from '../../chains/registry.ts'
import type {Settings} from '../../chains/settings.ts'
import type {PayoutChain} from '../../jobs/payouts/context.ts'
import {open as openMadeUp} from '../../jobs/payouts/madeup/family.ts'
import {endsByHeight, endsByTime, type Rules, type Transaction} from './chain.ts'

export const kindNames = ['height', 'time'] as const
export type KindName = (typeof kindNames)[number]

/** An outgoing payment that custody may be asked to sign. */
export interface Wanted {
  id: string
  kind: 'payout' | 'withdrawal' | 'sweep'
  payoutId: string | null
}

export interface Kind {
  name: KindName
  chain: ChainCode
  token: string
  fee: bigint
  rules: Rules
  parse(raw: string): Transaction
  worker(settings: Settings): PayoutChain
  /** An intent that asks for a signature. */
  intent(wanted: Wanted): object
  /** Makes the base's chain one of this kind. */
  prepare: string
}

function madeUp(name: KindName, rules: Rules): Kind {
  const chain: ChainCode = 'MADEUP'
  return {
    name,
    chain,
    token: 'MADE',
    fee: madeUpFee,
    rules,
    parse: raw => {
      const {txid, from, outputs, lifetime} = parseMadeUp(raw)
      return {
        txid,
        raw,
        from,
        fee: madeUpFee,
        lifetime,
        outputs: outputs.map(({to, amount}) => ({to, token: 'MADE', amount: BigInt(amount)})),
      }
    },
    worker: settings => openMadeUp(settings.chains.get(chain) as MadeUpSettings),
    intent: ({id, kind, payoutId}) =>
      kind === 'payout'
        ? {intent: 'pay_madeup', payout_id: payoutId}
        : kind === 'withdrawal'
          ? {intent: 'withdraw_madeup', outgoing_payment_id: id}
          : {intent: 'sweep_madeup', chain, outgoing_payment_id: id},
    prepare: `update app.chain set ends_by = '${name}' where chain = '${chain}'`,
  }
}

export const kinds: Record<KindName, Kind> = {height: madeUp('height', endsByHeight), time: madeUp('time', endsByTime)}
