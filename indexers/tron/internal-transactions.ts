// Whether nodes show what contracts pay. java-tron saves internal transactions only if it is told to
// (vm.saveInternalTx), and no root covers them: a node that does not looks like one on whose chain contracts pay
// nobody. Promises: at the start, and then daily, each node is looked at with a bound on requests. If it shows no
// internal transaction of many calls that coins came with, that is logged, and an incident is open until a later look
// finds some. The chain is followed meanwhile: nothing here is a proof, because a contract may keep what it gets.
import {setTimeout as sleep} from 'node:timers/promises'
import type {Logger} from '../../base/log.ts'
import type {Block, Info, TronNode, TronNodes} from '../../chains/tron/client.ts'
import {isExecuted} from '../../chains/tron/responses.ts'
import type {TronSettings} from '../../chains/tron/settings.ts'
import {contractTypes, parseRawData, type Transaction} from '../../chains/tron/transaction.ts'
import {inWords} from '../../db/client/failure.ts'
import type {ChainCursor} from '../cursor.ts'

/** So many calls, and none of them called another contract or paid somebody: that is no chance. */
const enoughCalls = 20
const mostRequests = 100
const blocksPerCall = 20
const dayMs = 86_400_000
/** After a look at a node that was away. */
const againMs = 600_000

/** What a node shows of its newest solidified blocks. */
interface Seen {
  /** Calls that coins came with, and that succeeded. */
  calls: number
  /** The blocks that were looked at. */
  from: number
  to: number
  /** Whether any internal transaction is shown; undefined if there were too few calls to say. */
  shows: boolean | undefined
}

interface Options {
  nodes: TronNodes
  settings: Pick<TronSettings, 'chain'>
  cursor: ChainCursor
  log: Logger
  /** Between requests: nothing here is urgent, and public nodes count requests. */
  pauseMs?: number
}

/** Looks at the nodes now, and then daily, until the process ends. */
export async function watchInternals(options: Options): Promise<never> {
  for (;;) {
    const waitMs = await lookAtAll(options).then(
      isComplete => (isComplete ? dayMs : againMs),
      error => {
        options.log.warn({error: inWords(error)}, 'could not record whether the nodes save internal transactions')
        return againMs
      },
    )
    await sleep(waitMs, undefined, {ref: false})
  }
}

/** Returns true if no node was away. Rejects if what was seen cannot be recorded. */
export async function lookAtAll({nodes, settings, cursor, log, pauseMs = 200}: Options): Promise<boolean> {
  const name = `${settings.chain.code}_RPC_URL`
  const looks = await Promise.all(
    nodes.all.map(async (node, i) => {
      const seen = await look(node, pauseMs).catch(error => {
        log.info({error: inWords(error)}, 'could not look whether a node saves internal transactions')
      })
      return {setting: i ? `${name}_${i + 1}` : name, seen}
    }),
  )
  const missing = looks.flatMap(({setting, seen}) => {
    if (seen?.shows !== false) return []
    const {calls, from, to} = seen
    return [{setting, calls, from, to}]
  })
  for (const each of missing) log.warn(each, warning)
  if (missing.length) await cursor.noteNoInternals(missing)
  else if (looks.every(({seen}) => seen?.shows)) await cursor.noteNoInternals([])
  return looks.every(({seen}) => seen)
}

const warning =
  'the node shows no internal transactions of many calls: coins that contracts pay would not be seen. Set vm.saveInternalTx = true in its configuration and have it read the chain again, from a height before the first address, or use another node'

async function look(node: TronNode, pauseMs: number): Promise<Seen> {
  const {height: top} = await node.solidHeader()
  const seen: Seen = {calls: 0, from: top + 1, to: top, shows: undefined}
  for (let requests = 1; requests < mostRequests && seen.from > 1; requests++) {
    const from = Math.max(1, seen.from - blocksPerCall)
    const blocks = await node.blocks(from, seen.from - from)
    for (const block of blocks.filter(({transactions}) => transactions.some(bringsCoins)).reverse()) {
      await sleep(pauseMs)
      const infos = await node.infos(block.height)
      requests++
      seen.from = block.height
      seen.calls += callsIn(block, infos)
      if (infos.some(({internals}) => internals.length)) return {...seen, shows: true}
      if (seen.calls >= enoughCalls) return {...seen, shows: false}
      if (requests >= mostRequests) return seen
    }
    seen.from = from
    await sleep(pauseMs)
  }
  return seen
}

/** What a node leaves out of its infos does not count. */
function callsIn({transactions}: Block, infos: Info[]): number {
  const byTxid = new Map(infos.map(info => [info.txid, info]))
  return transactions.filter(transaction => {
    const info = byTxid.get(transaction.txid)
    return info && isExecuted(transaction, info) && bringsCoins(transaction)
  }).length
}

function bringsCoins({rawData}: Transaction): boolean {
  const {type, message} = parseRawData(rawData).contract
  return type === contractTypes.trigger && message.integer(3) > 0n
}
