// A whole service on local chains, as npm start runs it, with a merchant and its wallet: what tests of a loss share.
// Its chains outlive the loss.
import {execFile} from 'node:child_process'
import {readFileSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {expect} from 'vitest'
import type {Service} from '../../base/home.ts'
import {type ChainCode, type Chains, newWallet, openChains} from '../../demo/chains.ts'
import {kill, newHome, processesOf, removeHome} from './processes.ts'
import {ended, type Started, sluice, start} from './service.ts'
import {until} from './until.ts'

const program = fileURLToPath(new URL('../../cli/main.ts', import.meta.url))
const timeoutMs = 180_000
const intervalMs = 300

export interface Deposit {
  id: string
  status: string
  chain: string
  token: string
  amount: string
  txid: string
  address: string
}

export class WholeService {
  readonly home = newHome()
  /** For all processes and commands. */
  readonly #environment: NodeJS.ProcessEnv
  running!: Started & {service: Service}
  chains!: Chains
  wallet!: Record<ChainCode, string>
  #secret = ''

  private constructor(chains: ChainCode[], environment: NodeJS.ProcessEnv) {
    this.#environment = {SLUICE_DEVNET: chains.join(','), ...environment}
  }

  /**
   * Started, with a merchant whose fee is 1 %, and whose payout addresses on these chains are its wallet; whitelisted
   * is none. Other chains do not run: that costs much, and tests nothing here.
   */
  static async open(chains: ChainCode[], environment: NodeJS.ProcessEnv = {}): Promise<WholeService> {
    const service = new WholeService(chains, environment)
    await service.start()
    service.chains = await openChains(service.home, chains)
    service.wallet = newWallet(service.chains)
    await service.sluice('merchant', 'create', '--name', 'Acme', '--prefix', 'acme', '--fee-bps', '100')
    service.#secret = (await service.sluice('key', 'create', '--merchant', 'acme')).secret
    for (const chain of chains) await service.call('PUT', '/v1/payout-address', {chain, address: service.wallet[chain]})
    return service
  }

  /** `npm start -- given`. */
  async start(...given: string[]): Promise<void> {
    this.running = await start(this.home, this.#environment, given)
  }

  async stop(): Promise<void> {
    this.running.child.kill('SIGTERM')
    await ended(this.running.child)
  }

  async close(): Promise<void> {
    await removeHome(this.home)
  }

  /** The database's server and every process are killed, and these files and folders of SLUICE_HOME are lost. */
  async lose(...files: string[]): Promise<void> {
    this.running.child.kill('SIGKILL')
    await ended(this.running.child)
    const pidFile = path.join(this.home, 'postgres', 'data', 'postmaster.pid')
    kill(Number.parseInt(readFileSync(pidFile, 'utf8'), 10), 'SIGKILL')
    const isChain = (pid: number) => /\/devnet|anvil|bitcoin|bcoin/.test(commandOf(pid))
    await until(async () => processesOf(this.home).every(isChain), {timeoutMs: 20_000, what: 'the processes to end'})
    for (const file of files) rmSync(path.join(this.home, file), {recursive: true, force: true})
  }

  // --- the command line ---

  // biome-ignore lint/suspicious/noExplicitAny: the tests say what they expect of it
  async sluice(...given: string[]): Promise<any> {
    return await sluice(this.home, ...given)
  }

  /** Runs a command without --json; resolves to its output. */
  async said(...given: string[]): Promise<string> {
    const env = {...process.env, ...this.#environment, SLUICE_HOME: this.home}
    const {stdout} = await promisify(execFile)(process.execPath, [program, ...given], {env, cwd: tmpdir()})
    return stdout
  }

  async whitelist(chain: ChainCode): Promise<void> {
    await this.sluice('whitelist', 'add', '--merchant', 'acme', '--chain', chain, '--address', this.wallet[chain])
  }

  // --- the merchant ---

  async call(
    method: string,
    route: string,
    body?: unknown,
    key?: string,
    // biome-ignore lint/suspicious/noExplicitAny: as above
  ): Promise<{status: number; body: any}> {
    const response = await fetch(this.running.service.api_url + route, {
      method,
      headers: {
        authorization: `Bearer ${this.#secret}`,
        'content-type': 'application/json',
        ...(key && {'idempotency-key': key}),
      },
      ...(body !== undefined && {body: JSON.stringify(body)}),
    })
    return {status: response.status, body: await response.json()}
  }

  async addressOf(user: string, chain: ChainCode): Promise<string> {
    const {body} = await this.call('POST', '/v1/users', {external_ref: user})
    return body.addresses.find((each: {chain: string}) => each.chain === chain).address
  }

  async deposits(): Promise<Deposit[]> {
    const {body} = await this.call('GET', '/v1/deposits?limit=100')
    return body.deposits
  }

  /** A deposit, once it is final. */
  async deposit(chain: ChainCode, token: string, user: string, amount: string): Promise<Deposit> {
    const txid = await this.chains[chain].send({token, to: await this.addressOf(user, chain), amount})
    return await this.untilFinal(chain, txid)
  }

  /** Mines, because finality needs blocks, and the chain's own come only every second or two. */
  async untilFinal(chain: ChainCode, txid: string): Promise<Deposit> {
    const final = async () => {
      await this.chains[chain].mine()
      return (await this.deposits()).find(each => each.txid === txid && each.status === 'final')
    }
    return await until(final, {timeoutMs, what: `the deposit of ${txid} to be final`, intervalMs})
  }

  async pay(chain: ChainCode, token: string, key: string): Promise<{id: string; gross: string; net: string}> {
    const {status, body} = await this.call('POST', '/v1/payouts', {chain, token}, key)
    expect({status, body}).toMatchObject({status: 202})
    return body
  }

  // biome-ignore lint/suspicious/noExplicitAny: as above
  async becomes(id: string, status: string): Promise<any> {
    return await until(
      async () => {
        const {body} = await this.call('GET', `/v1/payouts/${id}`)
        if (status === 'completed') await this.chains[body.chain as ChainCode].mine()
        return body.status === status && body
      },
      {timeoutMs, what: `payout ${id} to be ${status}`, intervalMs},
    )
  }

  /** Gross, by token. */
  async balances(): Promise<Record<string, string>> {
    const {body} = await this.call('GET', '/v1/balances')
    return Object.fromEntries(body.balances.map((each: Record<string, string>) => [each.token, each.gross]))
  }
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return 'anvil' // it has ended
  }
}
