// From a block to the merchant: milliseconds between the moment a local chain announces a block (newHeads) and the arrival of the
// deposit.pending webhook at a receiver, through the whole service.
import {chmodSync, mkdtempSync, rmSync} from 'node:fs'
import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {tmpdir} from 'node:os'
import path from 'node:path'
import pg from 'pg'
import {WebSocket} from 'ws'
import {z} from 'zod'
import {readSettings} from '../chains/settings.ts'
import {findLocalChain} from '../devnet/families.ts'
import {startService} from '../service/supervisor.ts'
import {createEndpoint, createMerchant} from '../test/support/webhooks.ts'

const Head = z.object({params: z.object({result: z.object({hash: z.string()})})})
const Event = z.object({type: z.string(), txid: z.string()})

export async function benchLatency(deposits = 30): Promise<{p50: number; p95: number}> {
  const home = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
  chmodSync(home, 0o755)
  process.env.WEBHOOK_ALLOW_PRIVATE = '1' // for the processes of the service
  const service = await startService(readSettings({SLUICE_HOME: home, PORT: '0'}), {quiet: true})
  const pool = new pg.Pool({connectionString: service.databaseUrl})
  const arrivals = new Map<string, number>()
  const announced = new Map<string, number>()
  const receiver = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const {type, txid} = Event.parse(JSON.parse(body))
    if (type === 'deposit.pending') arrivals.set(txid, performance.now())
    response.end()
  }).listen(0, '127.0.0.1')
  try {
    const {rpcUrl} = service.chains.find(({chain}) => chain === 'ETH')!
    const heads = new WebSocket(rpcUrl)
    heads.on('open', () => heads.send('{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}'))
    heads.on('message', data => {
      const head = Head.safeParse(JSON.parse(String(data)))
      if (head.success) announced.set(head.data.params.result.hash, performance.now())
    })
    const merchant = await createMerchant(pool)
    await createEndpoint(pool, merchant, {url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`})
    const chain = await findLocalChain(home, 'ETH')
    const delays: number[] = []
    while (delays.length < deposits) {
      const txid = await chain.send({token: 'ETH', to: merchant.address, amount: '0.001'})
      const {blockHash} = z.object({blockHash: z.string()}).parse(await chain.rpc('eth_getTransactionReceipt', [txid]))
      while (!arrivals.has(txid)) await new Promise(resolve => setTimeout(resolve, 5))
      const from = announced.get(blockHash)
      if (from !== undefined) delays.push(arrivals.get(txid)! - from)
    }
    heads.close()
    delays.sort((a, b) => a - b)
    return {p50: delays[Math.floor(deposits * 0.5)]!, p95: delays[Math.floor(deposits * 0.95)]!}
  } finally {
    receiver.close()
    receiver.closeAllConnections()
    await pool.end()
    await service.stop()
    rmSync(home, {recursive: true, force: true})
  }
}

if (process.argv[1] === import.meta.filename) console.log(await benchLatency())
