// Solana for the conformance suite: its local chain in this process, behind a proxy that is its node. Blocks skip
// slots. An account may hold any amount, and a transaction stays valid for ever, so that the suite's amounts and
// branches do for all chains. Every second payment to one address is in USDC, and makes the recipient's account.
import {randomInt} from 'node:crypto'
import {exactly} from '../../../base/json.ts'
import {SolanaApi} from '../../../devnet/solana/api.ts'
import {SolanaLocalChain} from '../../../devnet/solana/chain.ts'
import {newAddress} from '../../../devnet/solana/client.ts'
import {genesisHash} from '../../../devnet/solana/constants.ts'
import {type LocalBlock, SolanaJournal} from '../../../devnet/solana/journal.ts'
import {addressOfKey, newKey} from '../../../devnet/solana/keys.ts'
import {accountOf, tokenCalled, tokenPayment} from '../../../devnet/solana/tokens.ts'
import {transactionWith, transfer} from '../../../devnet/solana/transaction.ts'
import {type Call, RpcProxy} from '../../support/rpc-proxy.ts'
import type {ChainUnderTest, LocalChain, Output, Payment, Place} from '../chain.ts'
import {type Forms, RpcSource} from '../rpc-source.ts'

const code = 'SOL'
const usdc = tokenCalled('USDC')
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
  const inTokens = new Set<Uint8Array>()
  let payers = 0
  return {
    environment: {
      [`${code}_NETWORK`]: 'local',
      [`${code}_RPC_URL`]: proxy.httpUrl,
      [`${code}_USDC_CONTRACT`]: usdc.mint,
    },
    source,
    newAddress,
    /**
     * A payer has money for one payment, which takes all of it, so of two payments with its key only one can be mined.
     */
    async sign(outputs, insteadOf) {
      const key = insteadOf ? keys.get(insteadOf.txid)! : newKey()
      if (!insteadOf) {
        endow(chain, addressOfKey(key))
        if (payers++ % 2) inTokens.add(key)
      }
      const isToken = inTokens.has(key) && outputs.length === 1
      const payment = isToken ? inToken(chain, key, outputs[0]!) : inCoins(chain, key, outputs)
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
    received: async address => chain.tokenBalance(address, usdc.mint) + (chain.account(address)?.lamports ?? 0n),
    async stop() {
      await source.close()
      journal.close()
    },
  }
}

function endow(chain: SolanaLocalChain, address: string): void {
  chain.endow(address, value + fee)
  chain.endowTokens(usdc, address, value)
}

function inCoins(chain: SolanaLocalChain, key: Uint8Array, outputs: Output[]): Payment {
  const from = addressOfKey(key)
  const left = value - outputs.reduce((sum, {amount}) => sum + amount, 0n)
  const transfers = [...outputs, {to: rest, amount: left}].map(({to, amount}) => transfer(from, to, amount))
  const raw = transactionWith(transfers, {key, on: genesisHash})
  const {txid, keys} = chain.parse(raw)
  const sums = new Map<string, bigint>()
  for (const {to, amount} of outputs) sums.set(to, (sums.get(to) ?? 0n) + amount)
  // An output for each account that is paid: the sum, at the place of its key.
  const paid = [...sums].map(([to, amount]) => ({to, amount, index: keys.indexOf(to)}))
  return {txid, raw: Buffer.from(raw).toString('base64'), outputs: paid}
}

/** All its lamports go, too, so that it has no second payment; one is the least that an account is made with. */
function inToken(chain: SolanaLocalChain, key: Uint8Array, {to, amount}: Output): Payment {
  const from = addressOfKey(key)
  const instructions = [...tokenPayment(usdc, {from, to, amount}), transfer(from, rest, value - 1n)]
  const raw = transactionWith(instructions, {key, on: genesisHash})
  const {txid, keys} = chain.parse(raw)
  const index = 1000 + keys.indexOf(accountOf(usdc, to))
  return {txid, raw: Buffer.from(raw).toString('base64'), outputs: [{to, amount, index, token: usdc.token}]}
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
