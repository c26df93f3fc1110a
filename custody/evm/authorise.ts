// Hands out the authorisation of a token's sweep (EIP-3009, receiveWithAuthorization) before the sweep's transaction is
// signed: how much gas the call needs can be estimated only with a valid one. Promises: only the treasury can use it,
// for the amount and from the address that the sweep was begun with, and once: the sweep's own transaction has the same
// one. It is in the journal before it leaves custody; a repeated request gets the same. A trial is an authorisation of
// nothing, from an address of ours to the treasury. It is not in the journal: it can move nothing, only the treasury
// can use it, and custody never signs a transaction that does.
import {type EvmSettings, evmSettings, isFunded} from '../../chains/evm/settings.ts'
import type {Authorise, OfSweep, Trial} from '../intents.ts'
import type {Entry} from '../journal/file.ts'
import {type Draft, entryColumns} from '../journal/journal.ts'
import {checkRows} from '../judge/attempts.ts'
import {begunSweep} from '../judge/judge.ts'
import {checkAsset, type FamilyContext, findOwn, type Own} from '../judge/plan.ts'
import {Refusal} from '../judge/refusal.ts'
import type {KeyStore} from '../keys/key-store.ts'
import {checkAsBegun} from './plan.ts'
import {authorisationNonce, trialNonce} from './sign.ts'
import {receiveData, tokenOf} from './sign-plan.ts'

export async function authorise(
  context: FamilyContext,
  keys: KeyStore,
  request: Authorise,
): Promise<{data: string; draft?: Draft}> {
  if (!('outgoing_payment_id' in request)) return {data: await trialOf(context, keys, request)}
  const sweep = await begunSweep(context, request)
  const source = await checkAsBegun(context, sweep, request)
  const settings = evmSettings(context.chains.get(request.chain))
  checkKnows(settings, request.token)
  const before = await find(context, request)
  if (before) return {data: sameAs(before, request, source)}
  const data = await dataOf(settings, keys, request, source, context.treasury)
  return {data, draft: draftOf(request, source, context.treasury, data)}
}

async function trialOf(context: FamilyContext, keys: KeyStore, {chain, token, address}: Trial): Promise<string> {
  checkAsset(context, {chain, token})
  const settings = evmSettings(context.chains.get(chain))
  checkKnows(settings, token)
  const from = await findOwn(context, address)
  return await receiveData(keys, tokenOf(settings, token), {
    from,
    to: context.treasury.address,
    amount: 0n,
    nonce: trialNonce,
  })
}

function checkKnows(settings: EvmSettings, token: string): void {
  if (token === settings.chain.assets[0].token || isFunded(settings, token))
    throw new Refusal('unknown_settlement', `a sweep of ${token} needs no authorisation`)
}

async function find({client, journal}: FamilyContext, request: OfSweep): Promise<Entry | undefined> {
  const {rows} = await client.query<Entry>({
    name: 'find_authorisation',
    text: `select ${entryColumns} from custody.journal j where j.stream = $1 and j.kind = 'authorise' and j.subject_id = $2`,
    values: [request.chain, request.outgoing_payment_id],
  })
  checkRows(journal.check(rows))
  return rows[0]
}

function sameAs({token, amount, source: from, raw}: Entry, request: OfSweep, source: Own): string {
  if (token === request.token && amount === request.amount && from === source.address && raw) return raw
  throw new Refusal('settlement_changed', 'a sweep keeps the address, token and amount of its authorisation')
}

function dataOf(settings: EvmSettings, keys: KeyStore, request: OfSweep, from: Own, treasury: Own) {
  const amount = BigInt(request.amount)
  const nonce = authorisationNonce(request.outgoing_payment_id)
  return receiveData(keys, tokenOf(settings, request.token), {from, to: treasury.address, amount, nonce})
}

function draftOf(request: OfSweep, source: Own, treasury: Own, data: string): Draft {
  return {
    stream: request.chain,
    kind: 'authorise',
    subject_id: request.outgoing_payment_id,
    merchant_id: source.merchantId,
    token: request.token,
    amount: request.amount,
    destination: treasury.address,
    source: source.address,
    sender: null,
    nonce: null,
    max_fee: null,
    txid: null,
    raw: data,
    details: {},
    signed_at: new Date().toISOString(),
  }
}
