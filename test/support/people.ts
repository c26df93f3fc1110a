// Merchants, users and addresses for tests, made as the owner of the database.
import {randomBytes} from 'node:crypto'
import {getAddress} from 'viem'
import type {TestDatabase} from './database.ts'

export interface TestUser {
  merchantId: string
  userId: string
  /** EIP-55 form. */
  address: string
}

/** A merchant with a fee of 1 %, for which these chains are enabled. */
export async function makeMerchant(db: TestDatabase, chains = ['ETH', 'POLYGON']): Promise<string> {
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

/** A user with one EVM address, watched on both EVM chains and provisioned on those that are given. */
export async function makeUser(db: TestDatabase, merchantId: string, chains = ['ETH', 'POLYGON']): Promise<TestUser> {
  const address = getAddress(`0x${randomBytes(20).toString('hex')}`)
  await db.rows(
    `insert into custody.address (address, family, derivation_index, taken_at, merchant_id)
     values ($1, 'evm', 1000000 + floor(random() * 1e12)::bigint, now(), $2)`,
    [address, merchantId],
  )
  const [user] = await db.rows<{id: string}>(
    'insert into app.user (merchant_id, external_ref) values ($1, $2) returning id',
    [merchantId, randomBytes(4).toString('hex')],
  )
  await db.rows(
    `insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
     select c, lower($1), $1, $2, $3, c = any($4) from unnest(array['ETH', 'POLYGON']) c`,
    [address, user!.id, merchantId, chains],
  )
  return {merchantId, userId: user!.id, address}
}
