// What there is to check at the end of a run.
import type pg from 'pg'
import type {Claimant} from './claimant.ts'
import type {Merchant} from './merchant.ts'
import type {Payer} from './payer.ts'
import type {Reader} from './reader.ts'
import type {Service} from './service.ts'
import type {Users} from './users.ts'

export interface Run {
  db: pg.Pool
  service: Service
  merchants: Merchant[]
  users: Users
  payers: Payer[]
  claimants: Claimant[]
  readers: Reader[]
}
