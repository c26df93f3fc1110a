// What custody signs, in the terms that all families share: whose money it is, what the transaction does, and what
// judging needs.
import type pg from 'pg'
import {formatUnits} from '../../base/units.ts'
import {type CommonSettings, isWorthItsFee} from '../../chains/chain-settings.ts'
import type {TokenSettings} from '../../chains/contract-tokens.ts'
import type {ChainSettings} from '../../chains/families.ts'
import {type Asset, type ChainCode, type Family, chain as registered} from '../../chains/registry.ts'
import type {Kind} from '../intents.ts'
import type {Journal} from '../journal/journal.ts'
import type {KeyPath} from '../keys/key-store.ts'
import type {Attempt, Details} from './attempts.ts'
import {Refusal} from './refusal.ts'

/** An address of ours, and the path of its key. */
export interface Own {
  address: string
  path: KeyPath
  merchantId: string | null
}

/** The purpose of a signature. */
export interface Purpose {
  kind: Kind
  chain: ChainCode
  subjectId: string
  merchantId: string | null
  token: string
  amount: bigint
  destination: string
  /** What else the journal records, so that a lost payout can be entered again. */
  details: Details
}

/**
 * Whether what is signed uses gas that the treasury sent its address: it counted in the fee budget when it was sent.
 */
export const isFromGas = ({
  kind,
  chain,
  token,
  source,
  feePayer,
}: Pick<Plan, 'kind' | 'chain' | 'token' | 'source' | 'feePayer'>) =>
  kind === 'defund' || (kind === 'sweep' && source === feePayer && token !== registered(chain).assets[0].token)

/** What will be signed. */
export interface Plan extends Purpose {
  /** The address that the money comes from. */
  source: string
  /** Our address that pays the network fee; where nonces exclude, it sends the transaction. */
  feePayer: string
  /** Of their keys. */
  paths: Record<'source' | 'feePayer', KeyPath>
  /** Null where attempts do not exclude each other by nonces. */
  nonce: number | null
  /**
   * What all attempts use, and only one transaction can use up: feePayer:nonce, or the first input. Null where attempts
   * expire.
   */
  conflictKey: string | null
  /** The highest network fee that it may cost. */
  maxFee: bigint
  /** What lent energy should cover, and is burnt besides if it is gone; absent where nothing is lent. */
  mayBurn?: bigint | undefined
  /** The id of the row of app.outgoing_payment that it is an attempt for. */
  outgoingPaymentId: string
  /** It replaces a signed payment or withdrawal, or cancels one that has begun. */
  isForPaymentUnderWay: boolean
}

/** A plan to sign, or an earlier attempt for the same purpose, whose bytes are given again. */
export type Decision<P> = {plan: P} | {attempt: Attempt}

export interface PolicyContext {
  client: pg.Client
  chains: Map<ChainCode, ChainSettings>
  journal: Journal
}

/** What judging a family's intent needs. */
export interface FamilyContext extends PolicyContext {
  /** It signs only on its own chains. */
  family: Family
  treasury: Own
  timeLeft: TimeLeft
}

/**
 * How long this turn may still wait for rows that others hold. Meanwhile others wait for the rows that it has locked
 * itself.
 */
export interface TimeLeft {
  ms: number
}

/**
 * Only known tokens are signed for: a forged row could name a worthless token that the attacker has sent to us in any
 * amount.
 */
export function checkAsset({chains}: PolicyContext, {chain, token}: {chain: ChainCode; token: string}): Asset {
  const asset = chains.get(chain)?.chain.assets.find(known => known.token === token)
  if (!asset) throw new Refusal('unknown_settlement', `there is no token ${token} on ${chain}`)
  return asset
}

/** Amounts of an asset in whole coins, for people. */
export function inCoins(
  context: PolicyContext,
  asset: {chain: ChainCode; token: string},
): (units: bigint | string) => string {
  const {decimals} = checkAsset(context, asset)
  return units => formatUnits(BigInt(units), decimals)
}

export interface OwnRow {
  address: string
  purpose: KeyPath['purpose']
  index: string
  merchant_id: string | null
}

export function ownOf(family: Family, {address, purpose, index, merchant_id}: OwnRow): Own {
  return {address, path: {family, purpose, index: Number(index)}, merchantId: merchant_id}
}

/** An address of ours, in any form. */
export async function findOwn({client, family}: FamilyContext, address: string): Promise<Own> {
  const {rows} = await client.query<OwnRow>({
    name: 'find_own',
    text: `select address, purpose, derivation_index as index, merchant_id from custody.address where family = $1
      and match_key = app.match_key($2, (select folds_addresses from app.chain where family = $1 limit 1))`,
    values: [family, address],
  })
  const [own] = rows
  if (!own) throw new Refusal('not_ours', `${address} is not an address of this service`)
  return ownOf(family, own)
}

/** Refuses a sweep of the native coin whose fee is too high for its amount. */
export function checkSweepFee(settings: CommonSettings, sweep: Pick<Plan, 'amount' | 'maxFee'>): void {
  if (isWorthItsFee(settings, sweep)) return
  const {chain, sweepFeePercent} = settings
  throw new Refusal(
    'sweep_too_dear',
    `moving ${sweep.amount} base units may cost ${sweep.maxFee}: more than ${chain.code}_SWEEP_FEE_PERCENT allows (${sweepFeePercent} %)`,
  )
}

/** Refuses a sweep of a token that may cost more than the operator allows. */
export function checkTokenSweepFee(
  {chain, tokenSweepFee}: Pick<TokenSettings, 'chain' | 'tokenSweepFee'>,
  {maxFee}: Pick<Plan, 'maxFee'>,
): void {
  if (maxFee > tokenSweepFee)
    throw new Refusal(
      'sweep_too_dear',
      `the sweep may cost ${maxFee} base units of ${chain.assets[0].token}: more than ${chain.code}_TOKEN_SWEEP_FEE allows (${tokenSweepFee})`,
    )
}

/**
 * Less of a token than the minimum is signed only if it is all on its address that counts in the balance: it was worth
 * a sweep once. Otherwise another sweep is to be begun, so the worker gives this one up.
 */
export async function checkTokenSweep(
  {client, chains}: PolicyContext,
  {chain, token, amount}: Pick<Purpose, 'chain' | 'token' | 'amount'>,
  address: string,
): Promise<void> {
  const least = chains.get(chain)!.sweepMin.get(token)!
  if (amount >= least) return
  const {rows} = await client.query<{amount: string}>({
    name: 'collectable_amount',
    text: 'select app.collectable_amount($1, $2, $3) as amount',
    values: [chain, address, token],
  })
  const counts = BigInt(rows[0]!.amount)
  if (counts > 0n && amount >= counts) return
  throw new Refusal(
    'sweep_too_small',
    `${amount} base units of ${token} is too little to sweep (${chain}_SWEEP_MIN: ${least}), and not all that counts there`,
  )
}
