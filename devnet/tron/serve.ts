// Serves a local Tron chain: the API of a node, and the control of the chain, at one port.

import {z} from 'zod'
import {type ChainCode, chain as registered} from '../../chains/registry.ts'
import {bytesOf} from '../../chains/tron/address.ts'
import {rawOf} from '../../chains/tron/transaction.ts'
import type {Opened, ServeOptions, Serving} from '../family.ts'
import {listenAgain} from '../listen.ts'
import {controlMethods, failureOf, HttpServer, type Method, type Reply, response} from '../rpc-server.ts'
import {answer} from './api.ts'
import {Mining, Reorg, TronLocalChain} from './chain.ts'
import {call, payment} from './client.ts'
import {faucet, faucetKey, solidLag, tokens} from './constants.ts'
import {tokenTransferData} from './contracts.ts'
import {TronJournal} from './journal.ts'
import {Rejected} from './rejected.ts'

export const node = 'tron'

const Address = z.string().refine(text => bytesOf(text).length > 0)
const Amount = z.string().regex(/^\d+$/).transform(BigInt)
/** In ten-thousandths of what the energy costs without it. */
const Factor = z.int().min(0).max(34_000)
/** The contract of a token; undefined for the native coin. */
const Token = z
  .string()
  .optional()
  .transform((name, {addIssue}) => {
    if (name === undefined || name === 'TRX') return undefined
    const found = tokens.find(({token}) => token === name)
    if (!found) addIssue(`the local chain has no ${name}`)
    return found?.contract
  })

export function open(code: ChainCode, file: string): Opened {
  const journal = new TronJournal(file, code)
  return {journal, serve: options => serve(code, journal, options)}
}

async function serve(code: ChainCode, journal: TronJournal, options: ServeOptions): Promise<Serving> {
  const chain = new TronLocalChain(journal)
  if (chain.head.height === 0) chain.mine() // its contracts are there for whoever asks first
  const server = new HttpServer(2 ** 20, responder(code, chain, options))
  const port = await listenAgain(journal, 'port', server)
  options.log.info({height: chain.head.height, port}, 'the local chain is ready')
  const url = `http://127.0.0.1:${port}`
  return {
    where: {
      node,
      url,
      control_url: url,
      identity: {[`${code}_NETWORK`]: 'local', ...tokenSettings(code)},
      source: {[`${code}_RPC_URL`]: url},
    },
    mine: async () => chain.mine(),
    close: async () => server.close(),
  }
}

/** The settings with the contracts of the tokens that the registry knows. */
function tokenSettings(code: ChainCode): Record<string, string> {
  const {assets} = registered(code)
  const known = tokens.filter(({token}) => assets.some(asset => asset.token === token))
  return Object.fromEntries(known.map(({token, contract}) => [`${code}_${token}_CONTRACT`, contract]))
}

function responder(code: ChainCode, chain: TronLocalChain, {blockIntervalMs, log}: ServeOptions) {
  const methods = methodsOf(code, chain, blockIntervalMs)
  const failed = (error: unknown, method: string) =>
    error instanceof Rejected
      ? {code: -32000, message: `${error.code}: ${error.message}`}
      : failureOf(error, {method, log, invalid: -32602})
  const serveOne = (method: string, params: unknown[]) => {
    if (Object.hasOwn(methods, method)) return methods[method]!(params)
    throw new RangeError(`there is no method ${method}`)
  }
  return async ({path, body}: {path: string; body: string}): Promise<Reply> => {
    if (path === '/') return {status: 200, body: JSON.stringify(await response(body, {serve: serveOne, failed}))}
    const found = answer(chain, path, body)
    return found ? {status: 200, body: JSON.stringify(found)} : {status: 404, body: '<h1>404</h1>', type: 'text/html'}
  }
}

function methodsOf(code: ChainCode, chain: TronLocalChain, block_interval_ms: number): Record<string, Method> {
  const info = {chain: code, node, block_interval_ms, confirmations: solidLag + 1, faucet_address: faucet}
  const give = (to: string, amount: bigint, token?: string) => {
    const signing = {key: faucetKey, on: solid(chain)}
    const data = token && tokenTransferData(to, amount)
    return chain.submit(rawOf(token && data ? call(signing, {contract: token, data}) : payment(signing, to, amount)))
  }
  return {
    ...controlMethods(info, {
      check: async () => {},
      settledHead: async () => chain.head,
      holds: async address => chain.account(address)?.balance ?? 0n,
      give: async (to, amount) => give(to, amount),
      mine: async (blocks, options = {}) => chain.mine(blocks, Mining.parse(options)),
      reorg: async (depth, options = {}) => chain.reorg(depth, Reorg.parse(options)),
      forget: async txids => chain.forget(txids),
    }),
    devnet_pay: ([to, amount, token]) => give(Address.parse(to), Amount.parse(amount), Token.parse(token)),
    devnet_submit: ([raw]) => chain.submit(z.string().parse(raw)),
    devnet_included: ([txid]) => chain.journal.heightOf(z.string().parse(txid)),
    devnet_balance: ([address, token]) => String(chain.balance(Address.parse(address), Token.parse(token))),
    devnet_energy_factor: ([contract, factor]) => chain.setEnergyFactor(Address.parse(contract), Factor.parse(factor)),
  }
}

/** The block that payments of the faucet name. */
function solid(chain: TronLocalChain): {height: number; hash: string} {
  return {height: chain.solidHeight, hash: chain.block(chain.solidHeight).hash}
}
