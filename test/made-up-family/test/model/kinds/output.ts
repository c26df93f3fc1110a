// Chains on which an output is spent once: Bitcoin. The worker's part is the real one; its node is the model's, which
// has the fee rates.
import {address, initEccLib, networks, Transaction} from 'bitcoinjs-lib'
import * as secp256k1 from 'tiny-secp256k1'
import {PermanentError} from '../../../base/errors.ts'
import {silent} from '../../../base/log.ts'
import {keyAddress} from '../../../chains/bitcoin/script.ts'
import {bitcoinSettings} from '../../../chains/bitcoin/settings.ts'
import {chain as registered} from '../../../chains/registry.ts'
import {beginWithdrawal, open} from '../../../jobs/payouts/bitcoin/family.ts'
import {spendsOutputs} from '../chain.ts'
import type {Kind, Wanted} from './kind.ts'
import {jsonRpc, ModelNode} from './node.ts'

initEccLib(secp256k1)

const chain = 'BTC'
const token = 'BTC'
const network = networks.regtest
/** Ten sat for each virtual byte of a sweep of one or two outputs. */
const fee = 2000n

const node = await ModelNode.open(
  jsonRpc({
    estimatesmartfee: ({price}) => ({feerate: (10 * price) / 1e5}),
    getmempoolinfo: () => ({mempoolminfee: 1e-5, minrelaytxfee: 1e-5}),
  }),
)

const worker = node.worker(settings => open(bitcoinSettings(settings.chains.get('BTC')), silent()))

function formats() {
  const of = registered(chain)
  if (of.family !== 'bitcoin') throw new Error(`${chain} is not a Bitcoin chain`)
  return of.networks.regtest
}

/** Custody's own tests check the signatures. */
function parse(raw: string) {
  const transaction = Transaction.fromHex(raw)
  const publicKey = transaction.ins[0]!.witness[1]!
  return {
    txid: transaction.getId(),
    raw,
    from: keyAddress(publicKey, formats()),
    fee: 0n,
    inputs: transaction.ins.map(({hash, index}) => `${Buffer.from(hash).reverse().toString('hex')}:${index}`),
    outputs: transaction.outs.map(({script, value}) => {
      return {to: address.fromOutputScript(script, network), token, amount: value}
    }),
  }
}

const feeDetails = (raw: string) => ({network_fee: String(fee), vsize: Transaction.fromHex(raw).virtualSize()})

/** A thief offers any fee, begins with another input, adds or leaves out some, or wants a cancel. */
function intent({id, kind, payoutId, inputs, outputs, cancelling}: Wanted, a: number): object {
  const other = outputs[a % Math.max(1, outputs.length)]!
  const all = [
    inputs,
    inputs,
    inputs,
    inputs.toReversed(),
    inputs.slice(0, 1),
    [...inputs.filter(input => input !== other), other],
    [other],
  ][a % 7]!
  const asked = {inputs: all.length ? all : [other], fee: String(fee * [1n, 1n, 2n, 3n, 8n][a % 5]!)}
  if (cancelling ? a % 4 : a % 6 === 0) return {intent: 'cancel_outputs', outgoing_payment_id: id, chain, ...asked}
  if (kind === 'payout') return {intent: 'pay_outputs', payout_id: payoutId, ...asked}
  if (kind === 'withdrawal') return {intent: 'withdraw_outputs', outgoing_payment_id: id, ...asked}
  return {intent: 'sweep_outputs', outgoing_payment_id: id, chain, ...asked}
}

export const output: Kind = {
  name: 'output',
  chain,
  token,
  settings: {
    BTC_NETWORK: 'regtest',
    BTC_SOURCE: 'node',
    BTC_RPC_URL: `http://model:model@${node.address}`,
    BTC_FEE_BUDGET: '100000',
  },
  unit: 1000n,
  fee,
  rules: spendsOutputs,
  expires: false,
  parse,
  worker,
  intent,
  feeDetails,
  outsider,
  async withdraw(db, settings, amount) {
    const of = bitcoinSettings(settings.chains.get(chain))
    await beginWithdrawal(db as never, of, {token, amount, to: outsider(8)}).catch(error => {
      throw error instanceof PermanentError ? Object.assign(error, {code: 'SL422'}) : error
    })
  },
}

function outsider(n: number): string {
  return address.toBech32(Buffer.alloc(20, n + 1), 0, network.bech32)
}
