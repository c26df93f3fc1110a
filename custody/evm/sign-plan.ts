// Signs the transaction of a plan. Promises: it does exactly what the plan says; no I/O except the key store's.
import {type EvmSettings, erc20} from '../../chains/evm/settings.ts'
import type {Signed} from '../family.ts'
import type {KeyPath, KeyStore} from '../keys.ts'
import {readSignature} from '../secp256k1.ts'
import type {Details, EvmPlan} from './judge.ts'
import {authorisationNonce, receiveCall, type Sign, signTransaction, type Token, transferCall} from './sign.ts'

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
  const {nonce, fees, paths, source, destination, amount} = plan
  const signerOf =
    (path: KeyPath): Sign =>
    async digest =>
      readSignature(await keys.sign(path, digest))
  const token = tokenOf(settings, plan)
  const common = {chainId: settings.chainId, nonce, ...fees}
  if (!token) return await signTransaction({...common, to: destination, value: amount}, signerOf(paths.sender))
  const data =
    plan.kind === 'sweep'
      ? await receiveCall(
          token,
          {from: source, to: destination, value: amount, nonce: authorisationNonce(plan.subjectId!)},
          signerOf(paths.source),
        )
      : transferCall(destination, amount)
  return await signTransaction({...common, to: token.contract, value: 0n, data}, signerOf(paths.sender))
}

/** The contract of the token that a plan moves; undefined for the native coin. Throws if the token has no contract. */
function tokenOf(settings: EvmSettings, {token}: EvmPlan): Token | undefined {
  if (token === settings.chain.assets[0].token) return
  const {contract, sweep} = erc20(settings, token)
  return {contract, chainId: settings.chainId, ...sweep.domain}
}
