// bcoin as the node of a local chain, in memory: node main.cjs --port PORT --dir DIR, with NODE_BACKEND=js in its
// environment. (DIR only identifies the process.) Differences from bcoin's own RPC: sendrawtransaction gives the reason
// of a refusal, and replaces by fee, like bitcoind; `forget` removes transactions from the mempool.
const {parseArgs} = require('node:util')
const bcoin = require('bcoin')

const {values} = parseArgs({options: {port: {type: 'string'}, dir: {type: 'string'}}})
const incrementalRate = 1 // sat/vB

bcoin.Network.get('regtest').addressPrefix.bech32 = 'bcrt' // bcoin's own is 'rb', which no wallet knows
const node = new bcoin.FullNode({
  network: 'regtest',
  memory: true,
  workers: false,
  listen: false,
  httpHost: '127.0.0.1',
  httpPort: Number(values.port),
  noAuth: true,
  indexTx: true,
  persistent: false,
  replaceByFee: true,
  bip37: false,
  logLevel: 'none',
})

class Refused extends Error {
  constructor(code, message) {
    super(message)
    this.type = 'RPCError'
    this.code = code
  }
}

/** The unconfirmed transactions that conflict with `tx`. */
function conflictsOf(tx) {
  const entries = tx.inputs.map(({prevout}) => node.mempool.getSpent(prevout.hash, prevout.index))
  return [...new Set(entries.filter(Boolean))]
}

/** Includes their descendants. */
function descendants(entries) {
  const all = new Set(entries)
  for (const entry of all)
    entry.tx.outputs.forEach((_, index) => {
      const spender = node.mempool.getSpent(entry.tx.hash('hex'), index)
      if (spender) all.add(spender)
    })
  return [...all]
}

async function add(tx) {
  let missing
  try {
    missing = await node.mempool.addTX(tx)
  } catch (error) {
    if (error.type !== 'VerifyError') throw error
    if (error.reason === 'txn-already-in-mempool') return
    if (error.reason === 'txn-already-known') throw new Refused(-27, 'Transaction outputs already in utxo set')
    throw new Refused(-26, error.reason)
  }
  if (!missing) return
  node.mempool.removeOrphan(tx.hash('hex'))
  throw new Refused(-25, 'bad-txns-inputs-missingorspent')
}

/** Rejects if the fee is too low to replace. If the new one is refused, the replaced ones stay. */
async function replace(tx, conflicts) {
  const out = descendants(conflicts)
  const view = await node.mempool.getCoinView(tx)
  for (const {tx: other} of out) view.addTX(other, -1)
  const fee = tx.getFee(view)
  const size = tx.getVirtualSize()
  const sum = out.reduce((total, entry) => total + entry.fee, 0)
  const highest = Math.max(...conflicts.map(entry => entry.fee / entry.tx.getVirtualSize()))
  if (fee < sum + size * incrementalRate || fee / size <= highest)
    throw new Refused(-26, `insufficient fee, rejecting replacement ${tx.txid()}`)
  for (const entry of conflicts) if (node.mempool.hasEntry(entry.tx.hash('hex'))) node.mempool.evictEntry(entry)
  try {
    await add(tx)
  } catch (error) {
    for (const entry of out) await add(entry.tx)
    throw error
  }
}

delete node.rpc.calls.sendrawtransaction
node.rpc.add('sendrawtransaction', async ([hex]) => {
  const tx = bcoin.TX.fromRaw(hex, 'hex')
  const conflicts = conflictsOf(tx)
  if (conflicts.some(entry => entry.tx.txid() === tx.txid())) return tx.txid()
  if (conflicts.length) await replace(tx, conflicts)
  else await add(tx)
  return tx.txid()
})
node.rpc.add('forget', ([txids]) => {
  for (const txid of txids) {
    const entry = node.mempool.getEntry(Buffer.from(txid, 'hex').reverse().toString('hex'))
    if (entry) node.mempool.evictEntry(entry)
  }
  return null
})

async function main() {
  node.rpc.execute = async () => {
    throw new Refused(-28, 'it still starts')
  }
  await node.open()
  node.pool.options.maxOutbound = 0
  await node.connect() // otherwise it invalidates no block
  delete node.rpc.execute
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
