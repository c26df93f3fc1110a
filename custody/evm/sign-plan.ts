// Signs the transaction of a plan. Promises: it does exactly what the plan says; no I/O except the key store's.
import type {Hex} from 'viem'
import {type EvmSettings, erc20} from '../../chains/evm/settings.ts'
import type {Signed} from '../family.ts'
import type {Plan} from '../judge/plan.ts'
import type {KeyPath, KeyStore} from '../keys/key-store.ts'
import {readSignature} from '../keys/secp256k1.ts'
import type {Details, EvmTerms} from './plan.ts'
import {authorisationNonce, receiveCall, type Sign, signTransaction, type Token, transferCall} from './sign.ts'

type EvmPlan = Plan & EvmTerms

export async function signPlan(settings: EvmSettings, keys: KeyStore, plan: EvmPlan): Promise<Signed<Details>> {
  const {maxFeePerGas, maxPriorityFeePerGas, gasLimit} = plan.fees
  const details = {
    max_fee_per_gas: String(maxFeePerGas),
    max_priority_fee_per_gas: String(maxPriorityFeePerGas),
    gas_limit: Number(gasLimit),
  }
  return {...(await transactionOf(settings, keys, plan)), details}
}

async function transactionOf(settings: EvmSettings, keys: KeyStore, plan: EvmPlan) {
  const {nonce, fees, paths, source, destination, amount, token} = plan
  const common = {chainId: settings.chainId, nonce, ...fees}
  const sign = signer(keys, paths.feePayer)
  if (token === settings.chain.assets[0].token)
    return await signTransaction({...common, to: destination, value: amount}, sign)
  const from = {address: source, path: paths.source}
  const isByTreasury = plan.kind === 'sweep' && source !== plan.feePayer
  const data = isByTreasury
    ? await receiveData(keys, tokenOf(settings, token), {
        from,
        to: destination,
        amount,
        nonce: authorisationNonce(plan.subjectId),
      })
    : transferCall(destination, amount)
  return await signTransaction({...common, to: erc20(settings, token).contract, value: 0n, data}, sign)
}

interface TokenSweep {
  from: {address: string; path: KeyPath}
  /** The treasury. */
  to: string
  amount: bigint
  /** Of the authorisation. */
  nonce: Hex
}

/** The data of the call by which the treasury takes a token from an address, signed by the address. */
export function receiveData(keys: KeyStore, token: Token, sweep: TokenSweep): Promise<Hex> {
  const {from, to, amount, nonce} = sweep
  return receiveCall(token, {from: from.address, to, value: amount, nonce}, signer(keys, from.path))
}

function signer(keys: KeyStore, path: KeyPath): Sign {
  return async digest => readSignature(await keys.sign(path, digest))
}

/** A token whose contract takes authorisations. Throws if it does not, or has no contract. */
export function tokenOf(settings: EvmSettings, code: string): Token {
  const {contract, sweep} = erc20(settings, code)
  if (sweep.by === 'fund') throw new Error(`the contract of ${code} takes no authorisations`)
  return {contract, chainId: settings.chainId, ...sweep.domain}
}
