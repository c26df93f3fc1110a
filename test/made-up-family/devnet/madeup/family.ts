// The made-up family in devnet/.
import {z} from 'zod'
import {blockMs} from '../../chains/madeup/block.ts'
import {askInfo} from '../client.ts'
import type {DevnetFamily, ServeOptions, Serving} from '../family.ts'
import {listenAgain} from '../listen.ts'
import {controlMethods, failureOf, HttpServer, type Method, response} from '../rpc-server.ts'
import {Inside, MadeUpJournal, MadeUpLocalChain, Outcome, responseOf} from './chain.ts'
import {MadeUpClient, newAddress, payment} from './client.ts'

const node = 'madeup'
const confirmations = 2

export const madeup: DevnetFamily<MadeUpClient> = {
  nodes: [node],
  blockIntervalMs: blockMs,
  connect: async url => new MadeUpClient(url, await askInfo(url)),
  open: async (code, file) => {
    const journal = new MadeUpJournal(file, code)
    return {journal, serve: options => serve(code, journal, options)}
  },
}

type Code = Parameters<typeof madeup.open>[0]

async function serve(code: Code, journal: MadeUpJournal, {blockIntervalMs, log}: ServeOptions): Promise<Serving> {
  const chain = new MadeUpLocalChain(journal)
  const methods = methodsOf(code, chain, blockIntervalMs)
  const serveOne = (method: string, params: unknown[]) =>
    Object.hasOwn(methods, method) ? methods[method]!(params) : responseOf(chain.blocks, method, params)
  const failed = (error: unknown, method: string) => failureOf(error, {method, log, invalid: -32602})
  const server = new HttpServer(2 ** 20, async ({body}) => {
    return {status: 200, body: JSON.stringify(await response(body, {serve: serveOne, failed}))}
  })
  const url = `http://127.0.0.1:${await listenAgain(journal, 'port', server)}`
  const source = {[`${code}_RPC_URL`]: url, [`${code}_FINALITY`]: `${confirmations}`}
  return {
    where: {node, url, control_url: url, identity: {}, source},
    mine: async () => chain.mine(),
    close: async () => server.close(),
  }
}

function methodsOf(chain: Code, local: MadeUpLocalChain, block_interval_ms: number): Record<string, Method> {
  const info = {chain, node, block_interval_ms, confirmations, faucet_address: newAddress()}
  return {
    ...controlMethods(info, {
      check: async () => {},
      settledHead: async () => local.head,
      holds: async address => local.balance(address),
      give: async (to, amount) => local.submit(payment([{to, amount}])),
      mine: async (blocks, options = {}) => local.mine(blocks, Outcome.parse(options)),
      reorg: async (depth, options = {}) => local.reorg(depth, Inside(depth + 1).parse(options).inside),
      forget: async txids => local.forget(txids),
    }),
    submit: ([raw]) => local.submit(z.string().parse(raw)),
    included: ([txid]) => local.transactions().find(transaction => transaction.txid === txid)?.height,
    balance: ([address]) => String(local.balance(z.string().parse(address))),
  }
}
