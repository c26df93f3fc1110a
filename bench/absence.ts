// What it costs to prove that an expired payment of a token on Solana is in no block, beside so many payments a day of
// the same treasury: whole proofs/s over sending the same number of requests for a transaction to the same local chain,
// five at once as well. Slots take 400 ms on the main network; two nodes are asked when the end of the transaction is
// final, a single one three minutes later.
import {subscribe, unsubscribe} from 'node:diagnostics_channel'
import {silent} from '../base/log.ts'
import {tokenProgram} from '../chains/solana/address.ts'
import {type Latest, SolanaNodes} from '../chains/solana/client.ts'
import {lifetimeBlocks, messageOf, parsePayment, rawOf, signersOf} from '../chains/solana/message.ts'
import {associatedAccount} from '../chains/solana/tokens.ts'
import {newAddress, type SolanaClient} from '../devnet/solana/client.ts'
import {faucet, finalLag} from '../devnet/solana/constants.ts'
import {solana} from '../devnet/solana/family.ts'
import {tokens} from '../devnet/solana/tokens.ts'
import type {Expired} from '../indexers/cursor.ts'
import {proveAbsent} from '../indexers/solana/absence.ts'
import type {Report} from './result.ts'

const dayMs = 86_400_000
const slotMs = 400
const aloneSlots = 180_000 / slotMs
const atOnce = 5
const proofs = 20
const [usdc] = tokens
const unsigned = Buffer.alloc(64)

export async function benchAbsence(report: Report): Promise<void> {
  await proveBeside(report, 10_000, 2)
  await proveBeside(report, 10_000, 1)
  await proveBeside(report, 100_000, 1)
}

/** The treasury is the faucet of the local chain. */
async function proveBeside(report: Report, paymentsPerDay: number, nodes: 1 | 2): Promise<void> {
  const {journal, serve} = await solana.open('SOL', ':memory:')
  const serving = await serve({directory: '', blockIntervalMs: 0, log: silent()})
  try {
    const client = await solana.connect(serving.where.url)
    await client.transfer({token: 'USDC', to: newAddress(), amount: '1'})
    await client.mine()
    const asked = new SolanaNodes({endpoints: Array.from({length: nodes}, () => ({url: client.url}))})
    const named = await asked.ask(node => node.latest('confirmed'))
    const slots = lifetimeBlocks + finalLag + (nodes === 1 ? aloneSlots : 0)
    await pay(client, slots, dayMs / slotMs / paymentsPerDay)
    const proof = () => proveAbsent(asked, expiredOf(named), named.slot)
    const {rates, requests, transactions} = await measure(client.url, proof)
    const what = nameOf(paymentsPerDay, nodes)
    report({what, ...rates, unit: 'proofs/s'})
    report({what: `${what}: requests for one`, value: requests, unit: 'requests'})
    report({what: `${what}: of the treasury since, that one looks at`, value: transactions, unit: 'transactions'})
  } finally {
    await serving.close()
    journal.close()
  }
}

async function pay(client: SolanaClient, slots: number, slotsPerPayment: number): Promise<void> {
  for (let slot = 0, paid = 0; slot < slots; slot++) {
    for (; paid * slotsPerPayment <= slot; paid++) await client.transfer({token: 'USDC', to: newAddress(), amount: '1'})
    await client.mine()
  }
}

/** A payment of the treasury that no block took. */
function expiredOf({height, hash}: Latest): Expired {
  const {mint, decimals} = usdc!
  const [recipient, accountOf] = [newAddress(), (owner: string) => associatedAccount(owner, mint, 'token')]
  const payment = {
    from: faucet,
    feePayer: faucet,
    to: accountOf(recipient),
    amount: 1n,
    blockhash: hash,
    computeUnitLimit: 150_000,
    priorityFee: 0n,
    token: {program: tokenProgram, mint, decimals, fromAccount: accountOf(faucet), madeFor: recipient},
  }
  const signatures = signersOf(payment).map(() => unsigned)
  const raw = rawOf(messageOf(payment), signatures)
  const lifetime = {lifetimeFrom: height, lifetimeEnd: height + lifetimeBlocks}
  return {txid: parsePayment(raw).txid, raw, source: faucet, ...lifetime, notFollowed: null}
}

const nameOf = (paymentsPerDay: number, nodes: 1 | 2) =>
  `Solana: proofs that a payment is in no block, ${paymentsPerDay.toLocaleString('en')} payments a day, ${nodes === 1 ? 'one node' : 'two nodes'}`

async function measure(url: string, proof: () => Promise<object | string>) {
  const {result, requests} = await counted(proof)
  if (typeof result === 'string') throw new Error(`nothing was proven: ${result}`)
  const {transactions, after} = (result as {account: {transactions: number; after: string}}).account
  const seconds = await secondsOf(proof)
  const floor = await secondsOf(() => askFor(url, after, requests))
  return {rates: {value: 1 / seconds, floor: 1 / floor}, transactions, requests}
}

async function counted<T>(work: () => Promise<T>): Promise<{result: T; requests: number}> {
  let requests = 0
  const count = () => {
    requests += 1
  }
  subscribe('undici:request:create', count)
  try {
    return {result: await work(), requests}
  } finally {
    unsubscribe('undici:request:create', count)
  }
}

/** Of one, after one that is not counted. */
async function secondsOf(work: () => Promise<unknown>): Promise<number> {
  await work()
  const began = performance.now()
  for (let n = 0; n < proofs; n++) await work()
  return (performance.now() - began) / 1000 / proofs
}

async function askFor(url: string, txid: string, requests: number): Promise<void> {
  const body = JSON.stringify({jsonrpc: '2.0', id: 1, method: 'getTransaction', params: [txid, {encoding: 'json'}]})
  let left = requests
  const lane = async () => {
    while (left-- > 0) await (await fetch(url, {method: 'POST', body})).json()
  }
  await Promise.all(Array.from({length: atOnce}, lane))
}
