// From a block to the merchant: milliseconds between the moment a local chain announces a block (on Tron and Solana:
// has it) and the arrival of the deposit.pending webhook at a receiver, through the whole service.
import {chmodSync, mkdtempSync, rmSync} from 'node:fs'
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import pg from 'pg'
import {WebSocket} from 'ws'
import {z} from 'zod'
import {readSettings} from '../chains/settings.ts'
import {findLocalChain} from '../devnet/families.ts'
import {type RunningService, startService} from '../service/supervisor.ts'
import {createEndpoint, createMerchant, type Merchant} from '../test/support/webhooks.ts'
import {quantile, type Report} from './result.ts'

const Head = z.object({params: z.object({result: z.object({hash: z.string()})})})
const Event = z.object({type: z.string(), txid: z.string()})

const chains = ['ETH', 'TRON', 'SOL'] as const
type Timed = (typeof chains)[number]
const deposits = 20

export async function benchLatency(report: Report): Promise<void> {
  const home = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
  chmodSync(home, 0o755)
  process.env.WEBHOOK_ALLOW_PRIVATE = '1' // for the processes of the service
  const service = await startService(readSettings({SLUICE_HOME: home, PORT: '0', DASHBOARD_PORT: '0'}), {quiet: true})
  const pool = new pg.Pool({connectionString: service.databaseUrl})
  const receiver = new Receiver()
  try {
    const merchant = await createMerchant(pool)
    await createEndpoint(pool, merchant, {url: receiver.url})
    for (const chain of chains) {
      const address = chain === 'ETH' ? merchant.address : await addressOn(pool, home, chain, merchant)
      const delays = await delaysOf(await payers[chain](service, home), address, receiver)
      for (const percent of [50, 95])
        report({what: `${chain}: block to webhook, p${percent}`, value: quantile(delays, percent / 100), unit: 'ms'})
    }
  } finally {
    receiver.close()
    await pool.end()
    await service.stop()
    rmSync(home, {recursive: true, force: true})
  }
}

/** Of payments, one after the other, in milliseconds. */
async function delaysOf(payer: Payer, address: string, receiver: Receiver): Promise<number[]> {
  const delays: number[] = []
  while (delays.length < deposits) {
    const {txid, shownAt} = await payer.pay(address)
    const arrivedAt = await receiver.arrival(txid)
    const from = shownAt()
    if (from !== undefined) delays.push(arrivedAt - from)
  }
  payer.close()
  return delays
}

/** Notes when the first webhook of a deposit arrives. */
class Receiver {
  readonly #arrivals = new Map<string, number>()
  readonly #server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const {type, txid} = Event.parse(JSON.parse(body))
    if (type === 'deposit.pending') this.#arrivals.set(txid, performance.now())
    response.end()
  }).listen(0, '127.0.0.1')

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`
  }

  async arrival(txid: string): Promise<number> {
    while (!this.#arrivals.has(txid)) await sleep(5)
    return this.#arrivals.get(txid)!
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }
}

interface Payer {
  /** Resolves once it is in a block, and says when the chain showed that block. */
  pay(to: string): Promise<{txid: string; shownAt(): number | undefined}>
  close(): void
}

const payers: Record<Timed, (service: RunningService, home: string) => Promise<Payer>> = {
  async ETH({chains}, home) {
    const announced = new Map<string, number>()
    const {rpcUrl} = chains.find(({chain}) => chain === 'ETH')!
    const heads = new WebSocket(rpcUrl)
    heads.on('open', () => heads.send('{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}'))
    heads.on('message', data => {
      const head = Head.safeParse(JSON.parse(String(data)))
      if (head.success) announced.set(head.data.params.result.hash, performance.now())
    })
    const chain = await findLocalChain(home, 'ETH')
    return {
      async pay(to) {
        const txid = await chain.send({token: 'ETH', to, amount: '0.001'})
        const {blockHash} = z
          .object({blockHash: z.string()})
          .parse(await chain.rpc('eth_getTransactionReceipt', [txid]))
        return {txid, shownAt: () => announced.get(blockHash)}
      },
      close: () => heads.close(),
    }
  },
  TRON: (_service, home) => payerOn('TRON', 'TRX', home),
  SOL: (_service, home) => payerOn('SOL', 'SOL', home),
}

/** The chain is asked for the transaction again and again. */
async function payerOn(code: Timed, token: string, home: string): Promise<Payer> {
  const chain = await findLocalChain(home, code)
  return {
    async pay(to) {
      const txid = await chain.transfer({token, to, amount: '1'})
      while ((await chain.rpc('devnet_included', [txid])) === null) await sleep(2)
      const at = performance.now()
      return {txid, shownAt: () => at}
    },
    close() {},
  }
}

async function addressOn(pool: pg.Pool, home: string, chain: Timed, {id}: Merchant): Promise<string> {
  const address = (await findLocalChain(home, chain)).newAddress()
  await pool.query(
    `insert into app.address (chain, match_key, address, user_id, merchant_id, is_provisioned)
     select $1, $2, $2, id, merchant_id, true from app.user where merchant_id = $3`,
    [chain, address, id],
  )
  return address
}
