// Payouts with everything they need, as in production: a chain, its indexer, custody and workers as separate processes,
// each with its role, and Postgres. The workers reach the chain through a node that can misbehave; the indexer reads it
// directly. Blocks are mined when a transaction waits, unless a test mines them itself.
import {randomBytes} from 'node:crypto'
import {setTimeout as sleep} from 'node:timers/promises'
import {encodeFunctionData, getAddress} from 'viem'
import {readSettings} from '../../../chains/settings.ts'
import {writeAssets} from '../../../db/migrate/assets.ts'
import {issuerOf, tokens} from '../../../devnet/evm/tokens.ts'
import {startCustody} from '../custody.ts'
import {testDatabase} from '../database.ts'
import {Indexer} from '../indexer.ts'
import {newHome} from '../processes.ts'
import {RpcProxy} from '../rpc-proxy.ts'
import {until} from '../until.ts'
import {type Running, type Shop, treasuryOf, World} from '../world.ts'
import {Anvil, localChainId} from './anvil.ts'

export type {Shop} from '../world.ts'

/** Blocks also come without transactions: fees fall, and a stuck transaction is noticed. */
const emptyBlockMs = 1000

export const ether = 10n ** 18n
export const usdc = 10n ** 6n
/** 100 of it: the smallest payout, and the smallest sweep. */
export const jpyc = 100n * 10n ** 18n

/** ETH, or the code of a token. */
type Token = 'ETH' | 'USDC' | 'EURC' | 'JPYC' | 'USDT'

export class EvmWorld extends World {
  readonly anvil: Anvil
  /** The workers' node. */
  readonly node: RpcProxy
  readonly indexer: Indexer
  readonly treasury: string
  #miner: Promise<void> | undefined
  /** The faucet's transactions are sent one at a time: each asks the node for its nonce. */
  #lastSent: Promise<unknown> = Promise.resolve()
  /** Whether waiting transactions are mined, and made final, automatically. */
  isMining = true
  #isOver = false

  private constructor(parts: Running & {anvil: Anvil; node: RpcProxy; indexer: Indexer; treasury: string}) {
    super(parts)
    this.anvil = parts.anvil
    this.node = parts.node
    this.indexer = parts.indexer
    this.treasury = parts.treasury
    this.#miner = this.#mine()
  }

  /** Starts everything but workers, and gives the treasury coins. `settings` go to custody and the workers. */
  static async open(settings: Record<string, string> = {}): Promise<EvmWorld> {
    const [db, anvil] = await Promise.all([testDatabase(), Anvil.start({slotsInAnEpoch: 1})])
    const home = newHome()
    const all = {
      ETH_CHAIN_ID: String(localChainId),
      ETH_USDC_CONTRACT: anvil.usdc,
      ETH_TOKENS: anvil.ownTokens,
      ADDRESS_POOL_SIZE: '100',
      ...settings,
    }
    await writeAssets(db.ownerUrl, readSettings(all).chains.values())
    const indexer = Indexer.start({
      db,
      rpcUrl: anvil.wsUrl,
      settings: {USDC_CONTRACT: anvil.usdc, TOKENS: anvil.ownTokens},
    })
    const [node, custody] = await Promise.all([RpcProxy.start(anvil), startCustody(db, home, all)])
    const running: Running = {chain: 'ETH', db, home, custody, settings: all, source: {ETH_RPC_URL: node.httpUrl}}
    const world = new EvmWorld({...running, anvil, node, indexer, treasury: await treasuryOf(db, 'evm')})
    await world.topUp(10n * ether)
    return world
  }

  async close(): Promise<void> {
    this.#isOver = true
    await this.end(
      () => this.#miner,
      () => Promise.all([this.indexer.stop(), this.node.close()]),
      () => this.anvil.stop(),
    )
  }

  async #mine(): Promise<void> {
    for (let last = 0; !this.#isOver; await sleep(50)) {
      const {pending} = await this.anvil.call<{pending: string}>('txpool_status')
      if (!this.isMining || (!Number(pending) && Date.now() - last < emptyBlockMs)) continue
      await this.anvil.mine(Number(pending) ? 3 : 1) // finalized is two blocks below the head
      last = Date.now()
    }
  }

  // --- merchants and money ---

  /** A merchant whose users received these amounts of a token, finally. */
  async openShop(token: Token, amounts: bigint[], {whitelisted = true} = {}): Promise<Shop> {
    const wallet = getAddress(`0x${randomBytes(20).toString('hex')}`)
    const shop = await this.makeShop(amounts.length, wallet, whitelisted)
    await this.pay(token, shop.addresses, amounts)
    return shop
  }

  /** Pays from the faucet, and waits until it is final here. */
  async pay(token: Token, to: string[], amounts: bigint[]): Promise<void> {
    const total = amounts.reduce((sum, amount) => sum + amount, 0n)
    this.#lastSent = this.#lastSent.then(() =>
      token === 'ETH'
        ? this.anvil.multi('pay', [to, amounts], total)
        : this.anvil.multi('payTokens', [contractOf(token), to, amounts]),
    )
    await this.untilFinal((await this.#lastSent) as string, to.length)
  }

  async topUp(amount: bigint): Promise<void> {
    const funds = async () => {
      const [row] = await this.db.rows<{balance: string}>(
        `select coalesce(sum(balance), 0)::text as balance from app.treasury where token = 'ETH'`,
      )
      return BigInt(row!.balance)
    }
    const before = await funds()
    await this.anvil.send({to: this.treasury, value: amount})
    await until(async () => (await funds()) >= before + amount, {
      timeoutMs: 40_000,
      what: 'the treasury to be topped up',
    })
  }

  /** What the issuer of a token does, such as blacklist(address) and pause(); in the next block. */
  async issuer(token: Token, functionName: string, args: string[] = []): Promise<void> {
    const {abi} = issuerOf(contractOf(token))
    await this.anvil.send({to: contractOf(token), data: encodeFunctionData({abi, functionName, args})})
    const {height} = await this.anvil.block('latest')
    const isFinal = async () => (await this.anvil.block('finalized')).height > height + 1
    await until(isFinal, {timeoutMs: 20_000, what: 'the block to be final'})
  }

  /** The amount that its wallet received on the chain itself. */
  async received({wallet}: Shop, token: Token): Promise<bigint> {
    return await this.held(token, wallet)
  }

  async held(token: Token, address: string): Promise<bigint> {
    return token === 'ETH' ? this.anvil.balance(address) : this.anvil.tokenBalance(address, contractOf(token))
  }
}

const contractOf = (code: Token) => tokens.find(({token}) => token === code)!.contract
