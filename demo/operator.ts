// What the operator does in the demo (account, key, whitelist, invitation), with the SQL of the command line. A second
// run finds the same merchant, and makes a new key.
import {createHash, randomBytes} from 'node:crypto'
import pg from 'pg'
import {newKey} from '../base/api-key.ts'
import {chainCodes} from './chains.ts'

const prefix = 'demo'
const feeBps = 50

/** The operator, with the database owner's rights. */
export class Operator {
  readonly #databaseUrl: string

  constructor(databaseUrl: string) {
    this.#databaseUrl = databaseUrl
  }

  /** Makes the merchant, or finds it, and a key for it; keys of earlier runs are revoked. Returns the key's secret. */
  async openShop(): Promise<string> {
    return await this.#inDatabase(async db => {
      const id = (await findMerchant(db)) ?? (await createMerchant(db))
      await db.query('select app.revoke_api_key(id) from app.api_key where merchant_id = $1 and revoked_at is null', [
        id,
      ])
      const {secret, hash} = newKey()
      await db.query('select app.create_api_key($1, $2)', [id, hash])
      return secret
    })
  }

  /** A link by which one person signs in to the merchant's dashboard, once and for a day. */
  async invite(dashboardUrl: string): Promise<string> {
    const token = randomBytes(32).toString('base64url')
    const hash = createHash('sha256').update(token).digest()
    await this.#inDatabase(async db => db.query('select dashboard.invite($1, $2)', [await findMerchant(db), hash]))
    return `${dashboardUrl}/invitation/${token}`
  }

  /** Whitelists an address for payouts of the merchant. */
  async whitelist(chain: string, address: string): Promise<void> {
    await this.#inDatabase(async db =>
      db.query('insert into custody.whitelist (merchant_id, chain, address) values ($1, $2, $3)', [
        await findMerchant(db),
        chain,
        address,
      ]),
    )
  }

  async #inDatabase<T>(work: (db: pg.Client) => Promise<T>): Promise<T> {
    const db = new pg.Client({connectionString: this.#databaseUrl, application_name: 'sluice-demo'})
    await db.connect()
    try {
      return await work(db)
    } finally {
      await db.end()
    }
  }
}

async function findMerchant(db: pg.Client): Promise<string | undefined> {
  return (await db.query<{id: string}>('select id from app.merchant where prefix = $1', [prefix])).rows[0]?.id
}

async function createMerchant(db: pg.Client): Promise<string> {
  const {rows} = await db.query<{id: string}>('select app.create_merchant($1, $2, $3, $4) as id', [
    'Demo Shop',
    prefix,
    chainCodes,
    feeBps,
  ])
  return rows[0]!.id
}
