// Payouts without a node: a treasury with money, and a payment through the worker's own functions, with the journal
// entries of custody, up to its final block, which a ChainWriter writes. For tests of what others see of payouts.
// test/faults/payouts.test.ts tests payouts on a real chain.
import {randomBytes} from 'node:crypto'
import {getAddress, type Hex, keccak256} from 'viem'
import type {ChainWriter} from '../chain-writer.ts'
import {hashOf} from '../chain-writer.ts'
import type {TestDatabase} from '../database.ts'

const gas = 21_000n
const gasPrice = 10n ** 9n
export const networkFee = gas * gasPrice

/** The treasury of the EVM chains; watched. */
export async function makeTreasury(db: TestDatabase): Promise<string> {
  const address = getAddress(`0x${randomBytes(20).toString('hex')}`)
  await db.rows(
    `insert into custody.address (address, family, derivation_index, purpose) values ($1, 'evm', 0, 'treasury')`,
    [address],
  )
  await db.rows(`select custody.watch_treasury('evm')`)
  return address
}

/** A final top-up of the treasury, as an operator makes it. */
export async function topUp(writer: ChainWriter, treasury: string, token: string, amount: bigint): Promise<void> {
  const txid = hashOf(`top-up ${randomBytes(8).toString('hex')}`)
  await writer.write({add: [[{txid, amount, token, recipient: treasury}]]})
  await writer.finalise(writer.head.height)
}

/**
 * Takes a pending payout to paying, from the treasury only, with a journal entry; returns the transaction that pays it.
 */
export async function beginToPay(db: TestDatabase, payout: string): Promise<string> {
  const raw = hashOf(`payment ${payout}`) as Hex
  const txid = keccak256(raw)
  await db.rows('select app.begin_sweeping($1)', [payout])
  await db.rows('select app.end_sweeping($1)', [payout])
  const [begun] = await db.rows<{short: string | null}>('select app.begin_payment($1, $2) as short', [
    payout,
    networkFee.toString(),
  ])
  if (begun!.short) throw new Error(`the treasury cannot pay: ${begun!.short}`)
  await db.rows(
    `with listed as (
       insert into custody.whitelist (merchant_id, chain, address) select merchant_id, chain, address from app.payout where id = $1
       on conflict do nothing
     )
     insert into custody.journal (stream, seq, kind, subject_id, merchant_id, token, amount, destination, source, sender, nonce, max_fee, txid,
       raw, signed_at, hash)
     select s.chain, 1 + (select count(*) from custody.journal j where j.stream = s.chain), 'pay', s.payout_id, s.merchant_id, s.token, s.amount,
       s.recipient, s.source, s.fee_payer, s.nonce, s.max_fee, $2, $3, clock_timestamp(), $2
     from app.outgoing_payment s where s.payout_id = $1 and s.kind = 'payout'`,
    [payout, txid, raw],
  )
  await db.rows(
    `select app.store_signed(s.id, 1, 'effect', $2, $3, s.amount, s.max_fee, $4) from app.outgoing_payment s
     where s.payout_id = $1 and s.kind = 'payout'`,
    [
      payout,
      txid,
      raw,
      {max_fee_per_gas: String(gasPrice), max_priority_fee_per_gas: String(gasPrice), gas_limit: String(gas)},
    ],
  )
  return txid
}

/** A final block holds the transaction, successful or not; it cost the highest fee. */
export async function includeFinally(
  db: TestDatabase,
  writer: ChainWriter,
  txid: string,
  success = true,
): Promise<void> {
  await writer.write({add: [[]]})
  const {height, hash} = writer.head
  await db.rows(
    `insert into chain.confirmed_tx (id, chain, txid, block_height, block_hash, block_time, account, nonce, success, fee)
     select s.chain || ':' || $1, s.chain, $1, $2, $3, now(), s.fee_payer, s.nonce, $4, s.max_fee
     from app.outgoing_attempt o join app.outgoing_payment s on s.id = o.outgoing_payment_id where o.txid = $1`,
    [txid, height, hash, success],
  )
  await writer.finalise(height)
}
