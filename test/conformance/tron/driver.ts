// Tron for the conformance suite: its local chain in this process, behind a proxy that is its node.
import {z} from 'zod'
import {blockId} from '../../../chains/tron/block.ts'
import {rawOf, type Transaction} from '../../../chains/tron/transaction.ts'
import {answer} from '../../../devnet/tron/api.ts'
import {TronLocalChain} from '../../../devnet/tron/chain.ts'
import {dispersal, newAddress} from '../../../devnet/tron/client.ts'
import {genesis} from '../../../devnet/tron/constants.ts'
import {TronJournal} from '../../../devnet/tron/journal.ts'
import {addressOfKey, newKey} from '../../../devnet/tron/keys.ts'
import {RpcProxy} from '../../support/rpc-proxy.ts'
import type {ChainUnderTest, LocalChain, Payment, Place} from '../chain.ts'
import {type Forms, RpcSource} from '../rpc-source.ts'

const code = 'TRON'
/** What each payer has, for one payment: its value, and what it may cost. */
const value = 1_000_000_000n
const mostCost = 100_000_000n

export const tron: ChainUnderTest = {name: 'Tron', code, showsUnconfirmed: false, isSecondSource: true, start}

async function start(finalDepth: number): Promise<LocalChain> {
  const journal = new TronJournal(':memory:', code)
  const chain = new TronLocalChain(journal, finalDepth)
  const proxy = await RpcProxy.start({
    call: async (path, [question]) => answer(chain, path, JSON.stringify(question)),
  })
  const source = new RpcSource(proxy, forms(chain, finalDepth))
  const keys = new Map<string, Uint8Array>()
  return {
    environment: {[`${code}_NETWORK`]: 'local', [`${code}_RPC_URL`]: proxy.httpUrl},
    source,
    newAddress,
    /** A payer has money for one payment, so of two payments with its key only one can be mined. */
    async sign(outputs, insteadOf) {
      const key = insteadOf ? keys.get(insteadOf.txid)! : newKey()
      if (!insteadOf) journal.endow(addressOfKey(key), value + mostCost)
      const {height, hash} = journal.find(0)!
      const transaction = dispersal({key, on: {height, hash}}, outputs, value)
      keys.set(transaction.txid, key)
      return paymentOf(transaction, outputs)
    },
    async send({raw}) {
      chain.submit(raw)
    },
    forget: async ({txid}) => chain.forget([txid]),
    mine: async blocks => chain.mine(blocks),
    reorg: async (depth, again = {}) =>
      chain.reorg(depth, {
        inside: Array.from({length: depth}, (_, place) => (again[place] ?? []).map(({raw}) => raw)),
      }),
    head: async () => chain.head,
    hashAt: async height => journal.find(height)?.hash,
    places: async payments => payments.map(payment => placeOf(chain, payment)),
    received: async address => journal.account(address, chain.head.height)?.balance ?? 0n,
    async stop() {
      await source.close()
      journal.close()
    },
  }
}

function paymentOf(transaction: Transaction, outputs: {to: string; amount: bigint}[]): Payment {
  const {txid} = transaction
  return {txid, raw: rawOf(transaction), outputs: outputs.map((output, n) => ({...output, index: 1 + n}))}
}

function placeOf(chain: TronLocalChain, {txid}: Payment): Place {
  const height = chain.journal.heightOf(txid)
  if (height !== undefined) return {height, hash: chain.block(height).hash}
  return chain.waits(txid) ? 'unconfirmed' : undefined
}

const Question = z.object({id_or_num: z.string().optional(), startNum: z.int().optional(), num: z.int().optional()})

function forms(chain: TronLocalChain, finalDepth: number): Forms {
  return {
    lags: () => {
      const then = copyOf(chain, finalDepth)
      return ({method, params}) => answer(then, method, JSON.stringify(params[0]))
    },
    'returns nothing':
      () =>
      ({method}) =>
        method.endsWith('infobyblocknum') ? [] : {},
    'is of another network': () => async (call, pass) => {
      const {id_or_num} = Question.parse(call.params[0])
      if (!call.method.endsWith('/getblock') || id_or_num !== '0') return pass()
      const parentHash = '11'.repeat(32)
      const raw_data = {txTrieRoot: genesis.txTrieRoot, parentHash}
      return {blockID: blockId({...genesis, parentHash}), block_header: {raw_data}}
    },
    forgets: below => (call, pass) => {
      const {id_or_num, startNum, num} = Question.parse(call.params[0])
      const height = Number(id_or_num ?? startNum ?? num ?? below)
      if (height === 0 || height >= below) return pass()
      return call.method.endsWith('infobyblocknum') ? [] : {}
    },
  }
}

/** The same blocks, which stay as they are. */
function copyOf(chain: TronLocalChain, finalDepth: number): TronLocalChain {
  const journal = new TronJournal(':memory:', code)
  const blocks = Array.from({length: chain.head.height + 1}, (_, height) => chain.block(height))
  journal.commit(blocks.map(block => ({block})))
  return new TronLocalChain(journal, finalDepth)
}
