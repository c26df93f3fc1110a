// Electrum servers for the processes of the service: proxies in front of the local chain's server. They misbehave until
// `calm` is called. Two lie to the indexer in turn, in every way. The worker's proxy misbehaves call by call. Most
// often it accepts a transaction without a response, or reports a transaction as accepted without passing it on.
import {setTimeout as sleep} from 'node:timers/promises'
import {Transaction} from 'bitcoinjs-lib'
import {type Lie, lie} from '../../support/bitcoin/electrum-lies.ts'
import {faults, LyingElectrum} from '../../support/bitcoin/lying-electrum.ts'
import type {Behaviour} from '../../support/rpc-proxy.ts'
import type {GoBetween} from '../go-between.ts'
import type {Random} from '../random.ts'
import type {Service} from '../service.ts'

const broadcast = 'blockchain.transaction.broadcast'
const sending = {
  passes: 45,
  'accepted, late response': 10,
  'accepted, response lost': 15,
  'accepted, reported as refused': 9,
  'not accepted, response lost': 7,
  'not accepted, refused': 6,
  'not accepted, reported as accepted': 12,
}
const reading = {passes: 86, late: 5, 'response lost': 4, refused: 3, 'fees are high': 6}
type Mood = keyof typeof sending | keyof typeof reading

/** In coins per 1,000 bytes: 40 sat/vB, of the 200 that are allowed. */
const highFee = 0.0004

/** For the worker. */
export class WorkersElectrum implements GoBetween {
  readonly what = 'the Electrum server of BTC, to the worker'
  readonly counts: Record<string, number> = {}
  readonly #service: Service
  readonly #random: Random
  #server: LyingElectrum | undefined

  constructor(service: Service, random: Random) {
    this.#service = service
    this.#random = random.fork('electrum, to the worker')
  }

  async open(): Promise<void> {
    this.#server = await startBefore(this.#service)
    this.#server.behave = this.#behave
    this.#service.useNode('jobs', 'BTC_ELECTRUM_URLS', this.#server.url)
  }

  calm(): void {
    this.#server!.behave = undefined
  }

  close(): void {
    void this.#server?.close()
  }

  readonly #behave: Behaviour = async (call, pass) => {
    const {method, params} = call
    const mood = this.#random.weighted<Mood>((method === broadcast ? sending : reading) as Record<Mood, number>)
    this.counts[mood] = (this.counts[mood] ?? 0) + 1
    if (mood === 'not accepted, response lost') faults.drop()
    if (mood === 'not accepted, refused' || mood === 'refused') faults.error('the server is busy')
    if (mood === 'not accepted, reported as accepted') return Transaction.fromHex(String(params[0])).getId()
    if (mood === 'late') await sleep(this.#random.between(500, 3000))
    if (mood === 'fees are high' && method === 'blockchain.estimatefee') return highFee
    const response = await pass()
    if (mood === 'accepted, late response') await sleep(this.#random.between(500, 8000))
    if (mood === 'accepted, reported as refused') faults.error('the transaction was rejected by network rules.')
    if (mood.endsWith('response lost')) faults.drop()
    return response
  }
}

/** Lies that the service believes for a while, at most as long as the payer allows (its graceMs). */
const lies: Record<Lie | 'closes' | 'is silent', number> = {
  lags: 4,
  'repeats itself': 3,
  'returns nothing': 3,
  fails: 3,
  hangs: 2,
  'is of another network': 2,
  'forges proofs': 2,
  'forges histories': 2,
  'forges transactions': 2,
  closes: 3,
  'is silent': 3,
}
const longestLieMs = 2500

/** For the indexer: one of its two servers. */
export class IndexersElectrum implements GoBetween {
  readonly what: string
  readonly counts: Record<string, number> = {}
  readonly #service: Service
  readonly #random: Random
  readonly #calm = new AbortController()
  #server: LyingElectrum | undefined

  constructor(name: string, service: Service, random: Random) {
    this.what = `the ${name} Electrum server of BTC, to the indexer`
    this.#service = service
    this.#random = random.fork(this.what)
  }

  async open(): Promise<void> {
    this.#server = await startBefore(this.#service)
    this.#service.useNode('indexers', 'BTC_ELECTRUM_URLS', this.#server.url)
    void this.#lie(this.#server)
  }

  calm(): void {
    this.#calm.abort()
  }

  close(): void {
    void this.#server?.close()
  }

  async #lie(server: LyingElectrum): Promise<void> {
    const {signal} = this.#calm
    while (!signal.aborted) {
      await sleep(this.#random.between(1000, 6000), undefined, {signal}).catch(() => {})
      if (signal.aborted) return
      const how = this.#random.weighted(lies)
      try {
        if (how === 'closes') server.disconnect()
        else if (how === 'is silent') server.tells = false
        else await lie(server, how)
        this.counts[how] = (this.counts[how] ?? 0) + 1
        await sleep(this.#random.between(300, longestLieMs), undefined, {signal}).catch(() => {})
      } catch {} // the chain is down: no lie is possible
      if (how === 'hangs') server.disconnect() // in the end
      await lie(server)
    }
  }
}

async function startBefore(service: Service): Promise<LyingElectrum> {
  return await LyingElectrum.start({
    get url() {
      return service.url('BTC')
    },
  })
}
