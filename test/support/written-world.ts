// A world whose chain the test writes, with merchants whose addresses custody made and a real custody. For tests of
// what it signs. The world of a family writes the contents of its blocks.
import {mkdirSync, writeFileSync} from 'node:fs'
import path from 'node:path'
import {type ChainCode, chain as chainOf, chains} from '../../chains/registry.ts'
import {readSettings} from '../../chains/settings.ts'
import {writeAssets} from '../../db/migrate/assets.ts'
import {ChainWriter, type TestConfirmedTx} from './chain-writer.ts'
import {startCustody} from './custody.ts'
import {testDatabase} from './database.ts'
import {makeMerchant} from './people.ts'
import {newHome} from './processes.ts'
import {until} from './until.ts'
import {type Running, treasuryOf, World} from './world.ts'

export const junk = 'test test test test test test test test test test test junk'
const passphrase = 'correct horse'
const poolSize = 40
const familyCount = new Set(chains.map(({family}) => family)).size

/** The seed file of `junk`, with a passphrase that is cheap to check. */
const seed = {
  version: 1,
  kdf: {
    name: 'scrypt',
    n: 4096,
    r: 8,
    p: 1,
    salt: 'bf1230e283448728b4d6978177af2619a2c2dd36548eeae2ee29e011fa6886ea',
  },
  cipher: {
    name: 'aes-256-gcm',
    iv: '5469401b10e38275aa81f315',
  },
  ciphertext:
    '9dc200b6a093a093fbd85933b913e6c2e160779a373a57627f67b54ce686f93c214b64d4b87aa5bd8118508b836ce7b3787304f8f2f110abf4067e',
  tag: 'e67471a29a82bb2d12257e1b2b6fbb50',
}

export interface Merchant {
  id: string
  /** Its one deposit address on EVM chains. */
  address: string
  payoutAddress: string
  /** Its one deposit address on Bitcoin. */
  bitcoin: string
}

interface Written extends Running {
  writer: ChainWriter
  treasury: string
}

/** What a forged sweep of coins says that its address holds; no deposit is like it. */
const forgedAmount = 10n ** 18n + 1n

export abstract class WrittenWorld extends World {
  readonly writer: ChainWriter
  readonly treasury: string

  protected constructor(parts: Written) {
    super(parts)
    this.writer = parts.writer
    this.treasury = parts.treasury
  }

  /** The parts of a family's world: custody runs, with the seed of `junk`. */
  protected static async parts(chain: ChainCode, given: Record<string, string>): Promise<Written> {
    const db = await testDatabase()
    const home = newHome()
    mkdirSync(path.join(home, 'custody'))
    writeFileSync(path.join(home, 'custody', 'seed.json'), JSON.stringify(seed))
    writeFileSync(path.join(home, 'custody', 'seed.new'), 'The journal lacks nothing.')
    const settings = {CUSTODY_PASSPHRASE: passphrase, ADDRESS_POOL_SIZE: String(poolSize), ...given}
    if (given.ETH_TOKENS) await writeAssets(db.ownerUrl, readSettings(settings).chains.values())
    const custody = await startCustody(db, home, settings)
    const treasury = await treasuryOf(db, chainOf(chain).family)
    return {chain, db, home, custody, settings, source: {}, writer: await ChainWriter.open(db, chain), treasury}
  }

  async close(): Promise<void> {
    await this.end(() => this.writer.close())
  }

  /** Waits until the pool is full, so that custody has no other work. */
  async filled(): Promise<void> {
    const free = `select from custody.address where purpose = 'deposit' and taken_at is null and retired_at is null`
    const isFull = async () => (await this.db.rows(free)).length === familyCount * poolSize
    await until(isFull, {timeoutMs: 30_000, what: 'the pool to be full'})
  }

  /**
   * A merchant with a user, whose addresses come from custody, and with a payout address on these chains, by default
   * whitelisted.
   */
  protected async merchantPaidTo(payoutAddress: string, paidOn: ChainCode[], whitelisted = true): Promise<Merchant> {
    const id = await makeMerchant(this.db, ['ETH', 'POLYGON', 'BTC'])
    const [user] = await this.db.rows<{id: string}>(
      `insert into app.user (merchant_id, external_ref) values ($1, 'one') returning id`,
      [id],
    )
    for (const family of ['evm', 'bitcoin'])
      await this.db.rows('select app.take_address($1, $2, $3)', [id, user!.id, family])
    await this.db.rows('update app.address set is_provisioned = true where user_id = $1', [user!.id])
    const taken = await this.db.rows<{chain: string; address: string}>(
      'select chain, address from app.address where user_id = $1',
      [user!.id],
    )
    const addressOn = (chain: string) => taken.find(row => row.chain === chain)!.address
    for (const chain of paidOn)
      await this.db.rows('select app.set_payout_address($1, $2, $3)', [id, chain, payoutAddress])
    if (whitelisted) await this.whitelist(id, payoutAddress)
    return {id, address: addressOn('ETH'), payoutAddress, bitcoin: addressOn('BTC')}
  }

  async finalise(): Promise<void> {
    if (!(await this.writer.finalise(this.writer.head.height))) throw new Error('the head cannot be final')
  }

  /** Transactions of ours in a block. */
  protected async writeSent(confirmedTxs: TestConfirmedTx[], final: boolean): Promise<void> {
    await this.writer.write({add: [{confirmedTxs}]})
    // No worker stored it, so it opens an incident; these tests are not about that.
    await this.db.rows(`select app.resolve_incident(id, 'kept') from app.incident where resolved_at is null`)
    if (final) await this.finalise()
  }

  // biome-ignore lint/suspicious/noExplicitAny: the tests say what they expect of it
  async sign(...intents: object[]): Promise<any[]> {
    const {status, body} = await this.custody.ask('/sign', {intents})
    if (status !== 200) throw new Error(`${status}: ${JSON.stringify(body)}`)
    return body.results
  }

  /** Signs a forged outgoing payment, then removes its row, so that nothing finishes it: it has no reserves. */
  async signForged(intent: Record<string, unknown>) {
    await this.forgeOutgoingPayment(intent)
    const [result] = await this.sign(intent)
    await this.db.rows(`with forged as (select id from app.outgoing_payment where max_fee = 1), freed as (
        update app.output set outgoing_payment_id = null, from_attempt = null where outgoing_payment_id in (select id from forged))
      delete from app.outgoing_payment where id in (select id from forged)`)
    await this.db.rows('delete from app.holding where amount = $1', [forgedAmount])
    return result
  }

  /**
   * The row that the intent needs, as an intruder in the database would write it, so that custody refuses for another
   * reason. Such rows may share a nonce, or outputs.
   */
  async forgeOutgoingPayment(intent: Record<string, unknown>): Promise<void> {
    const {intent: kind, outgoing_payment_id: id, payout_id: payout} = intent
    if (typeof kind !== 'string' || !/^(pay|sweep|cancel)/.test(kind)) return
    const inputs = (intent.inputs ?? []) as string[]
    const native = inputs.length ? 'BTC' : 'ETH'
    const {chain = native, token = native, nonce = 0, amount = '1', address} = intent
    const feePayer = intent.sender ?? (kind === 'sweep' && token !== 'USDC' ? address : this.treasury)
    const key = inputs.length ? {nonce: null, firstInput: inputs[0]} : {nonce, firstInput: null}
    const cancelling = kind.startsWith('cancel')
    await this.db.rows(
      'alter table app.outgoing_payment drop constraint if exists outgoing_payment_chain_conflict_key_key',
    )
    const {length} = await this.db.rows(
      `update app.outgoing_payment set fee_payer = $4, nonce = $5, first_input = $6, cancelling = $7, status = 'allocated'
       where chain = $1 and case when $2::uuid is not null then id = $2 when $3::uuid is not null then payout_id = $3
         else conflict_key = coalesce($6, $4 || ':' || $5::int) end returning id`,
      [chain, id, payout, feePayer, key.nonce, key.firstInput, cancelling],
    )
    if (!length)
      await this.db.rows(
        `insert into app.outgoing_payment (id, kind, chain, token, amount, source, recipient, fee_payer, nonce, first_input, payout_id, cancelling, max_fee)
         select coalesce($1, gen_random_uuid()), case when $2::uuid is null then 'sweep' else 'payout' end, $3, $4, greatest($5::numeric, 1), $6, $7, $8, $9,
           $10, $2, $11, 1
         where $2::uuid is null or exists (select from app.payout where id = $2)
         on conflict do nothing`,
        [
          id,
          payout,
          chain,
          token,
          amount,
          address ?? feePayer,
          this.treasury,
          feePayer,
          key.nonce,
          key.firstInput,
          cancelling,
        ],
      )
    await this.reserve(inputs, (id ?? payout) as string)
    if (kind === 'sweep' && token === chainOf(chain as ChainCode).assets[0].token)
      await this.db.rows(
        `insert into app.holding (chain, address, token, merchant_id, amount) select $1, address, $2, merchant_id, ${forgedAmount}
         from custody.address where address = $3 and merchant_id is not null on conflict do nothing`,
        [chain, token, address],
      )
  }

  /** Like an older copy of the database without the forged rows. */
  async forgetForged(): Promise<void> {
    const client = await this.db.pool.connect()
    await client.query(`set session_replication_role = replica;
      update app.output set outgoing_payment_id = null, from_attempt = null where outgoing_payment_id in (select id from app.outgoing_payment where max_fee = 1);
      delete from app.outgoing_payment where max_fee = 1;
      alter table app.outgoing_payment add constraint outgoing_payment_chain_conflict_key_key unique (chain, conflict_key);
      reset session_replication_role`)
    client.release()
  }

  /** Outputs for an outgoing payment, or for the outgoing payment of a payout. */
  async reserve(inputs: string[], of: string): Promise<void> {
    await this.db.rows(
      `update app.output u set outgoing_payment_id = s.id, from_attempt = 1 from app.outgoing_payment s
       where (s.id = $2 or s.payout_id = $2) and u.chain = s.chain and u.txid || ':' || u.vout = any($1)`,
      [inputs, of],
    )
  }

  journal(): Promise<Record<string, string>[]> {
    return this.db.rows(`select * from custody.journal where kind <> 'pool' order by stream, seq`)
  }
}
