// What is checked at the end of a run, and the truth of the chains.
import type pg from 'pg'
import type {Asset} from './asset.ts'
import type {Claimant} from './claimant.ts'
import type {Merchant} from './merchant.ts'
import type {Payer} from './payer.ts'
import type {Payments} from './payments.ts'
import type {Reader} from './reader.ts'
import type {Service} from './service.ts'
import type {Truth} from './truth.ts'
import type {Users} from './users.ts'

export interface Run {
  db: pg.Pool
  service: Service
  assets: Asset[]
  merchants: Merchant[]
  users: Users
  payments: Payments
  payers: Payer[]
  claimants: Claimant[]
  readers: Reader[]
}

const truths = new Map<Payer, Promise<Truth>>()

/** Read once. */
export async function truthOf(run: Run, payer: Payer): Promise<Truth> {
  const known = truths.get(payer) ?? readTruth(run, payer)
  truths.set(payer, known)
  return await known
}

async function readTruth({db, users, payments}: Run, payer: Payer): Promise<Truth> {
  const {rows} = await db.query<{address: string}>('select app.treasury_address($1) as address', [payer.chain])
  const addresses = new Set([...users.on(payer.chain).keys(), ...payments.on(payer.chain).keys()])
  return await payer.truth({treasury: rows[0]!.address, addresses, db})
}
