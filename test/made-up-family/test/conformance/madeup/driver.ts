// The made-up family for the conformance suite: its local chain in this process, behind a proxy that is its node.
import {parseTransaction} from '../../../chains/madeup/block.ts'
import {MadeUpJournal, MadeUpLocalChain, responseOf} from '../../../devnet/madeup/chain.ts'
import {newAddress, newKey, payment} from '../../../devnet/madeup/client.ts'
import {RpcProxy} from '../../support/rpc-proxy.ts'
import type {ChainUnderTest, LocalChain, Payment, Place} from '../chain.ts'
import {type Forms, RpcSource} from '../rpc-source.ts'

const code = 'MADEUP'

export const madeup: ChainUnderTest = {name: 'made up', code, showsUnconfirmed: false, isSecondSource: true, start}

async function start(finalDepth: number): Promise<LocalChain> {
  const journal = new MadeUpJournal(':memory:', code)
  const chain = new MadeUpLocalChain(journal)
  const proxy = await RpcProxy.start({call: async (method, params) => responseOf(chain.blocks, method, params)})
  const source = new RpcSource(proxy, forms(chain))
  const keys = new Map<string, Uint8Array>()
  return {
    environment: {[`${code}_RPC_URL`]: proxy.httpUrl, [`${code}_FINALITY`]: `${finalDepth + 1}`},
    source,
    newAddress,
    async sign(outputs, insteadOf) {
      const key = insteadOf ? keys.get(insteadOf.txid)! : newKey()
      const raw = payment(outputs, key)
      const {txid} = parseTransaction(raw)
      keys.set(txid, key)
      return {txid, raw, outputs: outputs.map((output, index) => ({...output, index}))}
    },
    async send({raw}) {
      chain.submit(raw)
    },
    forget: async ({txid}) => chain.forget([txid]),
    mine: async blocks => chain.mine(blocks),
    reorg: async (depth, again = {}) =>
      chain.reorg(
        depth,
        Array.from({length: depth}, (_, place) => (again[place] ?? []).map(({raw}) => raw)),
      ),
    head: async () => chain.head,
    hashAt: async height => journal.find(height)?.hash,
    places: async payments => placesIn(chain, payments),
    received: async address => chain.received(address),
    async stop() {
      await source.close()
      journal.close()
    },
  }
}

function placesIn(chain: MadeUpLocalChain, payments: Payment[]): Place[] {
  const mined = new Map<string, Place>(chain.transactions().map(({txid, height, hash}) => [txid, {height, hash}]))
  return payments.map(({txid}) => mined.get(txid) ?? (chain.waits(txid) ? 'unconfirmed' : undefined))
}

const forms = (chain: MadeUpLocalChain): Forms => ({
  lags: () => {
    const then = chain.blocks
    return ({method, params}) => responseOf(then, method, params)
  },
  'returns nothing': () => (call, pass) => (call.method === 'blocks' ? call.params.map(() => null) : pass()),
  'is of another network': () => (call, pass) =>
    call.method === 'hashes' && call.params[0] === 0 ? call.params.map(() => '00'.repeat(32)) : pass(),
  forgets: below => (call, pass) => {
    if (call.method !== 'blocks') return pass()
    return responseOf(
      chain.blocks,
      'blocks',
      call.params.map(height => (0 < Number(height) && Number(height) < below ? -1 : height)),
    )
  },
})
