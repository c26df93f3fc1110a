// Merchants, users and addresses for tests, created as the owner of the database.
import {randomBytes} from 'node:crypto'
import {getAddress} from 'viem'
import type {Family} from '../../chains/registry.ts'
import type {TestDatabase} from './database.ts'

export interface TestUser {
  merchantId: string
  userId: string
  /** EIP-55 form. */
  address: string
}

/** A merchant with a fee of 1 % and these chains enabled. */
export async function makeMerchant(db: Pick<TestDatabase, 'rows'>, chains = ['ETH', 'POLYGON']): Promise<string> {
  const prefix = `m${randomBytes(4).toString('hex')}`
  const [merchant] = await db.rows<{id: string}>(
    `insert into app.merchant (name, prefix, fee_bps) values ('Test', $1, 100) returning id`,
    [prefix],
  )
  await db.rows('insert into app.merchant_chain (merchant_id, chain) select $1, unnest($2::text[])', [
    merchant!.id,
    chains,
  ])
  return merchant!.id
}

/** A user with one EVM address, watched on both EVM chains and provisioned on the given ones. */
export async function makeUser(
  db: Pick<TestDatabase, 'rows'>,
  merchantId: string,
  chains = ['ETH', 'POLYGON'],
): Promise<TestUser> {
  const address = getAddress(`0x${randomBytes(20).toString('hex')}`)
  const userId = await watchAddress(db, merchantId, {address, family: 'evm', watched: ['ETH', 'POLYGON'], chains})
  return {merchantId, userId, address}
}

interface Watched {
  address: string
  family: Family
  /** Where it is watched, and where it was requested. */
  watched: string[]
  chains: string[]
}

/** A new user with this address. Resolves to the user's id once other transactions can see both. */
export async function watchAddress(
  db: Pick<TestDatabase, 'rows'>,
  merchantId: string,
  {address, family, watched, chains}: Watched,
): Promise<string> {
  const [user] = await db.rows<{id: string}>(
    `with derived as (
       insert into custody.address (address, family, derivation_index, taken_at, merchant_id)
       values ($1, $2, 1000000 + floor(random() * 1e12)::bigint, now(), $3) returning match_key
     ), customer as (
       insert into app.user (merchant_id, external_ref) values ($3, $4) returning id
     ), known as (
       insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
       select chain, match_key, $1, id, $3, chain = any($6) from derived, customer, unnest($5::text[]) chain
     )
     select id from customer`,
    [address, family, merchantId, randomBytes(4).toString('hex'), watched, chains],
  )
  return user!.id
}

/** The database id for a public id of the API, with or without its prefix. */
export function idOf(publicId: string): string {
  return publicId.replace(/^([a-z]+_)?(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$2-$3-$4-$5-$6')
}
