// A Tron node as the checks of nodes use it. Before the service starts, the funded account deploys the contract that
// pays several addresses at once (devnet/tron/contracts), unless the chain is the local one, which has it.
import {z} from 'zod'
import {caip2, chain as registered, type TronChain, tronNetworks} from '../../../chains/registry.ts'
import {blockId} from '../../../chains/tron/block.ts'
import {TronNode} from '../../../chains/tron/client.ts'
import {balanceData} from '../../../chains/tron/token-transfers.ts'
import {rawOf, type Transaction} from '../../../chains/tron/transaction.ts'
import {call, creation, newAddress, payment, type Signing} from '../../../devnet/tron/client.ts'
import {contracts, genesis} from '../../../devnet/tron/constants.ts'
import compiled from '../../../devnet/tron/contracts.json' with {type: 'json'}
import {disperseData, tokenTransferData} from '../../../devnet/tron/contracts.ts'
import {createdAddress} from '../../../devnet/tron/invoke.ts'
import {addressOfKey} from '../../../devnet/tron/keys.ts'
import {until} from '../../support/until.ts'
import {disguise} from '../node/disguise.ts'
import {
  type NodeFamily,
  type NodeOptions,
  type NodeUnderTest,
  type Output,
  refuseMainNetwork,
  type Signed,
} from '../node/node.ts'

const timeoutMs = 30_000
const trx = 1_000_000n
const hourMs = 3_600_000
const deployedTimeoutMs = 600_000
/** More than the sweep of USDT takes. */
const sweepEnergy = 200_000n

export const tron: NodeFamily = {open}

async function open(options: NodeOptions): Promise<NodeUnderTest> {
  const {chain: code, environment} = options
  const chain = registered(code) as TronChain
  const key = Buffer.from(options.key.replace(/^0x/, ''), 'hex')
  if (key.length !== 32) throw new Error('the key must be 64 hex digits')
  const solidityUrl = environment[`${code}_SOLIDITY_URL`] || options.url
  const node = new TronNode({url: options.url, solidityUrl}, environment[`${code}_API_KEY`] || undefined, timeoutMs)
  const reference = `0x${(await required(node.header(0))).hash.slice(-8)}`
  refuseMainNetwork(caip2('tron', reference))
  const network = tronNetworks.find(name => chain.networks[name].reference === reference)
  const proxy = network ? undefined : await disguise(options.url, genesisOfLocal)
  const signing = async (): Promise<Signing> => {
    const head = await required(node.header())
    return {key, on: await required(node.header(Math.max(head.height - 20, 0))), expiration: Date.now() + hourMs}
  }
  const signed = ({txid, ...rest}: Transaction): Signed => ({txid, raw: rawOf({txid, ...rest})})
  const isLocal = network === 'local'
  const [, usdt] = chain.assets
  const ofNetwork = isLocal ? contracts.usdt : network === 'nile' ? usdt!.contract : undefined
  const contract = environment[`${code}_USDT_CONTRACT`] || ofNetwork
  const tokenBalance = async (address: string) => {
    const {failure, returned} = await node.try({from: address, contract: contract!, data: balanceData(address)})
    if (failure) throw new Error(`the contract of ${usdt!.token} did not return a balance: ${failure.words}`)
    return BigInt(`0x${Buffer.from(returned).toString('hex')}`)
  }
  const usual = 10n * 10n ** BigInt(usdt!.decimals)
  const whyNoTokens = !contract
    ? `no contract of USDT is known there; name one with ${code}_USDT_CONTRACT`
    : (await tokenBalance(addressOfKey(key))) < 10n * usual
      ? `${addressOfKey(key)} has too little USDT`
      : undefined
  const first = (await required(node.header())).height
  const places = new Map<string, {height: number; hash: string}>()
  let next = first
  const readOn = async () => {
    for (let blocks = await node.blocks(next, 100); blocks.length; blocks = await node.blocks(next, 100))
      for (const {height, hash, transactions} of blocks) {
        for (const {txid} of transactions) places.set(txid, {height, hash})
        next = height + 1
      }
  }
  const submit = async ({raw}: {raw: string}) => {
    const refused = await node.broadcast(raw)
    if (refused && !/DUP/.test(refused)) throw new Error(`the node refused a transaction: ${refused}`)
  }
  const placeOf = async ({txid}: {txid: string}) => {
    await readOn()
    return places.get(txid)
  }
  const deploy = async () => {
    const {bytecode} = compiled.Disperse
    const code = Buffer.from(bytecode.replace(/^0x/, ''), 'hex')
    const made = signed(creation(await signing(), {name: 'Disperse', bytecode: code}))
    await submit(made)
    await until(() => placeOf(made), {timeoutMs: deployedTimeoutMs, intervalMs: 500, what: `a block with ${made.txid}`})
    return createdAddress(Buffer.from(made.txid, 'hex'), addressOfKey(key))
  }
  const disperse = isLocal ? contracts.disperse : await deploy()
  const sum = (outputs: Output[]) => outputs.reduce((total, {amount}) => total + amount, 0n)
  const dispersal = async (outputs: Output[], value: bigint) =>
    signed(call(await signing(), {contract: disperse, value, data: disperseData(outputs)}))
  return {
    settings: {
      [`${code}_NETWORK`]: environment[`${code}_NETWORK`] || (network ?? 'local'),
      [`${code}_RPC_URL`]: proxy?.url ?? options.url,
      ...(solidityUrl !== options.url && {[`${code}_SOLIDITY_URL`]: solidityUrl}),
      ...(contract && {[`${code}_USDT_CONTRACT`]: contract}),
    },
    coin: {...chain.assets[0], usual: 10n * trx},
    tokens: whyNoTokens ? {why: whyNoTokens} : [{token: usdt!.token, decimals: usdt!.decimals, usual}],
    float: 200n * trx,
    async stake() {
      const {network: daily, staked} = await required(node.energy(addressOfKey(key)))
      if (daily === 0n || staked === 0n) return {why: 'the node does not say what energy a stake gives'}
      const amount = (sweepEnergy * staked * trx) / daily + trx
      const balance = (await node.account(addressOfKey(key)))?.balance ?? 0n
      const lacks = amount + 100n * trx - balance
      return lacks > 0n ? {why: `${addressOfKey(key)} lacks ${lacks} sun to stake ${amount}`} : {amount}
    },
    newAddress,
    head: () => required(node.header()),
    pay: async ({to, amount}, {token}) =>
      signed(
        token === usdt!.token
          ? call(await signing(), {contract: contract!, data: tokenTransferData(to, amount)})
          : payment(await signing(), to, amount),
      ),
    payMany: outputs => dispersal(outputs, sum(outputs)),
    fail: output => dispersal([output], output.amount - 1n),
    submit,
    placeOf,
    balance: async (address, {token}) =>
      token === usdt!.token ? await tokenBalance(address) : ((await node.account(address))?.balance ?? 0n),
    async stir() {}, // empty blocks come by themselves
    rewind: {why: 'no node of Tron takes blocks off'},
    async close() {
      proxy?.close()
    },
  }
}

async function required<T>(asked: Promise<T | undefined>): Promise<T> {
  const found = await asked
  if (found === undefined) throw new Error('the node has no such block')
  return found
}

/** The service knows private networks by the first block of the local chain alone. */
function genesisOfLocal(body: string, path: string): object | undefined {
  if (!path.endsWith('/getblock')) return undefined
  const {id_or_num} = z.object({id_or_num: z.string().optional()}).parse(JSON.parse(body))
  if (id_or_num !== '0') return undefined
  const {txTrieRoot, parentHash} = genesis
  return {blockID: blockId(genesis), block_header: {raw_data: {txTrieRoot, parentHash}}}
}
