// The made-up family in custody.
import {randomUUID} from 'node:crypto'
import {z} from 'zod'
import {
  addressOf,
  blockMs,
  digestOf,
  fee,
  lifetimeBlocks,
  parseTransaction,
  rawTransaction,
} from '../../chains/madeup/block.ts'
import {type MadeUpSettings, madeUpSettings} from '../../chains/madeup/settings.ts'
import type {CustodyFamily, Signed} from '../family.ts'
import {intentsOf} from '../intents.ts'
import {type Lifetime, lifetimeInBlocks, lifetimeInTime, linkedNow} from '../judge/expiring.ts'
import type {FamilyContext, Plan, Purpose} from '../judge/plan.ts'
import type {KeyStore} from '../keys/key-store.ts'
import {secp256k1} from '../keys/secp256k1.ts'

const Intent = z.discriminatedUnion('intent', intentsOf('madeup', 'madeup', {}))

interface Terms {
  maxFee: bigint
  lifetime: Lifetime
}

export const madeup: CustodyFamily<MadeUpSettings, z.infer<typeof Intent>, Terms> = {
  curve: secp256k1,
  branches: {deposit: "m/44'/1'/0'/0/i", treasury: "m/44'/1'/1'/0/i"},
  address: publicKey => addressOf(Buffer.from(publicKey).toString('hex')),
  intents: Intent,
  plan: async (context, {purpose}) => ({plan: {maxFee: fee, lifetime: await lifetimeNow(context, purpose)}}),
  sign: async (_settings, keys, plan) => await sign(keys, plan),
  fees: () => ({}),
}

/** It ends by height, or by time where app.chain says so. */
async function lifetimeNow(context: FamilyContext, {chain}: Purpose): Promise<Lifetime> {
  const linked = await linkedNow(context, chain, madeUpSettings(context.chains.get(chain)))
  const {rowCount} = await context.client.query({
    name: 'ends_by_time',
    text: `select from app.chain where chain = $1 and ends_by = 'time'`,
    values: [chain],
  })
  return rowCount ? lifetimeInTime(linked, lifetimeBlocks * blockMs) : lifetimeInBlocks(linked, lifetimeBlocks, blockMs)
}

async function sign(keys: KeyStore, {paths, destination, amount, lifetime}: Plan & Terms): Promise<Signed> {
  const publicKey = Buffer.from(await keys.publicKey(paths.source)).toString('hex')
  const {from, end} = lifetime
  const body = {
    publicKey,
    outputs: [{to: destination, amount: String(amount)}],
    lifetime: {from, end},
    salt: randomUUID(),
  }
  const signature = (await keys.sign(paths.source, digestOf(body))).subarray(0, 64)
  const raw = rawTransaction(body, signature)
  return {txid: parseTransaction(raw).txid, raw, details: {lifetime: {...lifetime}}}
}
