// Solana for the conformance suite: its local chain in this process, behind a proxy that is its node. Blocks skip
// slots. An account may hold any amount, and a transaction stays valid for ever, so that the suite's amounts and
// branches do for all chains.
import {randomInt} from 'node:crypto'
import {exactly} from '../../../base/json.ts'
import {SolanaApi} from '../../../devnet/solana/api.ts'
import {SolanaLocalChain} from '../../../devnet/solana/chain.ts'
import {newAddress} from '../../../devnet/solana/client.ts'
import {genesisHash} from '../../../devnet/solana/constants.ts'
import {type LocalBlock, SolanaJournal} from '../../../devnet/solana/journal.ts'
import {addressOfKey, newKey} from '../../../devnet/solana/keys.ts'
import {transactionWith, transfer} from '../../../devnet/solana/transaction.ts'
import {type Call, RpcProxy} from '../../support/rpc-proxy.ts'
import type {ChainUnderTest, LocalChain, Output, Payment, Place} from '../chain.ts'
import {type Forms, RpcSource} from '../rpc-source.ts'

const code = 'SOL'
/** What each payer has, for one payment: its value, and its fee. */
const value = 1_000_000_000n
const fee = 5000n
/** Gets what a payment leaves. */
const rest = newAddress()

export const solana: ChainUnderTest = {name: 'Solana', code, showsUnconfirmed: false, isSecondSource: true, start}

async function start(finalDepth: number): Promise<LocalChain> {
  const journal = new SolanaJournal(':memory:', code)
  const chain = new SolanaLocalChain(journal, {finalized: finalDepth, validFor: Number.POSITIVE_INFINITY, rent: 0n})
  const ask = askIn(new SolanaApi(chain))
  const proxy = await RpcProxy.start({call: async (method, params) => ask({method, params})})
  const source = new RpcSource(proxy, forms(chain, finalDepth))
  const keys = new Map<string, Uint8Array>()
  return {
    environment: {[`${code}_NETWORK`]: 'local', [`${code}_RPC_URL`]: proxy.httpUrl},
    source,
    newAddress,
    /**
     * A payer has money for one payment, which takes all of it, so of two payments with its key only one can be mined.
     */
    async sign(outputs, insteadOf) {
      const key = insteadOf ? keys.get(insteadOf.txid)! : newKey()
      const from = addressOfKey(key)
      if (!insteadOf) chain.endow(from, value + fee)
      const left = value - outputs.reduce((sum, {amount}) => sum + amount, 0n)
      const transfers = [...outputs, {to: rest, amount: left}].map(({to, amount}) => transfer(from, to, amount))
      const raw = transactionWith(transfers, {key, on: genesisHash})
      const payment = paymentOf(chain, raw, outputs)
      keys.set(payment.txid, key)
      return payment
    },
    send: async ({raw}) => void chain.submit(Buffer.from(raw, 'base64')),
    forget: async ({txid}) => chain.forget([txid]),
    async mine(blocks = 1) {
      for (let i = 0; i < blocks; i++) chain.mine(1, {skip: randomInt(3)})
      return chain.head
    },
    reorg: async (depth, again = {}) =>
      chain.reorg(depth, {
        inside: Array.from({length: depth}, (_, place) => (again[place] ?? []).map(({raw}) => raw)),
      }),
    head: async () => chain.head,
    hashAt: async height => journal.block(height)?.hash,
    places: async payments => payments.map(payment => placeOf(chain, payment)),
    received: async address => chain.account(address)?.lamports ?? 0n,
    async stop() {
      await source.close()
      journal.close()
    },
  }
}

/** An output for each account that is paid: the sum, at the place of its key. */
function paymentOf(chain: SolanaLocalChain, raw: Uint8Array, outputs: Output[]): Payment {
  const {txid, keys} = chain.parse(raw)
  const sums = new Map<string, bigint>()
  for (const {to, amount} of outputs) sums.set(to, (sums.get(to) ?? 0n) + amount)
  return {
    txid,
    raw: Buffer.from(raw).toString('base64'),
    outputs: [...sums].map(([to, amount]) => ({to, amount, index: keys.indexOf(to)})),
  }
}

function placeOf(chain: SolanaLocalChain, {txid}: Payment): Place {
  const height = chain.journal.heightOf(txid)
  if (height !== undefined) return {height, hash: chain.block(height).hash}
  return chain.journal.pool().some(waiting => waiting.txid === txid) ? 'unconfirmed' : undefined
}

/** Amounts as numbers, as in JSON. */
const askIn =
  (api: SolanaApi) =>
  ({method, params}: Call): unknown =>
    JSON.parse(JSON.stringify(api.answer(method, params) ?? null, exactly))

function forms(chain: SolanaLocalChain, finalDepth: number): Forms {
  return {
    lags: () => askIn(new SolanaApi(copyOf(chain, finalDepth))),
    'returns nothing': () => () => null,
    'is of another network':
      () =>
      ({method}: Call, pass) =>
        method === 'getGenesisHash' ? chain.head.hash : pass(),
    forgets: below => {
      const pruned = new SolanaApi(chain)
      pruned.firstHeight = below
      return askIn(pruned)
    },
  }
}

/** The same blocks, which stay as they are. */
function copyOf(chain: SolanaLocalChain, finalized: number): SolanaLocalChain {
  const journal = new SolanaJournal(':memory:', code)
  const copy = new SolanaLocalChain(journal, {finalized})
  const blocks: LocalBlock[] = Array.from({length: chain.head.height + 1}, (_, height) => chain.block(height))
  journal.commit(blocks.map(block => ({block, changes: new Map()})))
  return copy
}
