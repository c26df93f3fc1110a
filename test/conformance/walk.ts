// The random walk: payments, blocks, reorganisations of every kind, wrong sources, crashes of the indexer and lost
// connections, in an order that a seed chooses. At quiet points, and at the end, the database must equal the chain.
// SEED is the first seed, SEEDS the number of seeds. The name of a test says what to set to repeat its walk. The error
// of a failed test lists its steps.
import {Random} from '../torture/random.ts'
import {faults, type Payment} from './chain.ts'
import {finalDepth, type World} from './world.ts'

const firstSeed = Number(process.env.SEED ?? 1)
export const seeds = Array.from({length: Number(process.env.SEEDS ?? 1)}, (_, i) => firstSeed + i)

const steps = 80

const weights = {
  pay: 24,
  mine: 20,
  reorg: 16,
  forget: 4,
  sendAgain: 6,
  replace: 4,
  poll: 10,
  settle: 8,
  fault: 4,
  restart: 4,
  sleep: 2,
  disconnect: 2,
}

export async function walk(world: World, seed: number): Promise<void> {
  const walker = new Walker(world, new Random(seed))
  await world.mine(finalDepth)
  for (let i = 0; i < 5; i++) await world.newAddress()
  try {
    for (let i = 0; i < steps; i++) await walker.step()
    await walker.calm()
    await world.mine(finalDepth + 1)
    await world.settled()
    const everything = await world.everything()
    await world.indexer.restart('SIGKILL')
    await world.chain.source.asked(5)
    await world.settled()
    if (JSON.stringify(await world.everything()) !== JSON.stringify(everything))
      throw new Error('a restart changed what is final')
  } catch (error) {
    throw new Error(`SEED=${seed}: ${(error as Error).message}\nafter\n${walker.path.join('\n')}`, {cause: error})
  }
}

type Move = keyof typeof weights

class Walker {
  readonly #world: World
  readonly #random: Random
  readonly path: string[] = []
  /** Each is at most once in a branch: each of two conflicting payments lists the other. */
  readonly #rivals = new Map<string, Payment[]>()
  /** Steps until the source behaves well again, or the indexer is back. */
  #calmIn = 0
  #amount = 1000n

  constructor(world: World, random: Random) {
    this.#world = world
    this.#random = random
  }

  async step(): Promise<void> {
    if (this.#calmIn && --this.#calmIn === 0) await this.calm()
    const move = this.#random.weighted(weights)
    this.path.push(move)
    await this.#moves[move]()
  }

  /** The source behaves well, and the indexer runs. */
  async calm(): Promise<void> {
    this.#note('calm')
    this.#calmIn = 0
    await this.#world.chain.source.behave()
    if (!this.#world.indexer.alive) this.#world.indexer.start()
  }

  readonly #moves: Record<Move, () => Promise<unknown>> = {
    pay: async () => {
      const payment = await this.#sign()
      await this.#world.send(payment)
    },
    mine: () => this.#world.mine(this.#random.pick([1, 1, 1, 2, 2, 9])),
    reorg: () => this.#reorg(),
    forget: async () => {
      const waiting = this.#at('unconfirmed')
      if (waiting.length) await this.#world.forget(this.#random.pick(waiting))
    },
    sendAgain: async () => {
      const gone = this.#at(undefined).filter(payment => this.#rivalsOf(payment).every(rival => this.#isGone(rival)))
      if (gone.length) await this.#world.send(this.#random.pick(gone))
    },
    replace: async () => {
      const waiting = this.#at('unconfirmed')
      if (!waiting.length) return
      const payment = this.#random.pick(waiting)
      const rival = await this.#sign(payment)
      await this.#world.forget(payment)
      await this.#world.send(rival)
    },
    poll: async () => {
      if (!this.#calmIn) await this.#world.chain.source.asked(this.#random.between(1, 8))
    },
    settle: async () => {
      await this.calm()
      await this.#world.settled()
    },
    fault: async () => {
      const fault = this.#random.pick(faults)
      this.#note(fault)
      await this.#world.chain.source.behave(fault)
      this.#calmIn = this.#random.between(2, 6)
      await this.#world.chain.source.asked(1)
    },
    restart: () => this.#world.indexer.restart(this.#random.pick(['SIGKILL', 'SIGTERM'] as const)),
    sleep: async () => {
      await this.#world.indexer.stop()
      this.#calmIn = this.#random.between(1, 5)
    },
    disconnect: () =>
      this.#world.db.rows(
        `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name like 'indexer-%'`,
      ),
  }

  #note(what: string): void {
    this.path.push(`  ${what}`)
  }

  #at(place: 'unconfirmed' | undefined): Payment[] {
    return this.#world.signed.filter(signed => signed.place === place).map(({payment}) => payment)
  }

  #isGone({txid}: Payment): boolean {
    return this.#at(undefined).some(payment => payment.txid === txid)
  }

  #rivalsOf({txid}: Payment): Payment[] {
    return this.#rivals.get(txid)!
  }

  /** Pays one to three outputs, mostly to addresses of ours, sometimes to one that was just handed out. */
  async #sign(insteadOf?: Payment): Promise<Payment> {
    const outputs = []
    for (let left = this.#random.pick([1, 1, 1, 2, 3]); left > 0; left--) {
      const kind = this.#random.weighted({known: 8, created: 1, strange: 1})
      const to =
        kind === 'known'
          ? this.#random.pick(this.#world.addresses)
          : kind === 'created'
            ? await this.#world.newAddress()
            : this.#world.chain.newAddress()
      outputs.push({to, amount: this.#amount++})
    }
    const payment = await this.#world.sign(outputs, insteadOf)
    const rivals = insteadOf ? this.#rivalsOf(insteadOf) : []
    rivals.push(payment)
    this.#rivals.set(payment.txid, rivals)
    this.#note(`${payment.txid}${insteadOf ? ` instead of ${insteadOf.txid}` : ''}`)
    return payment
  }

  /**
   * Down to the final block at most. Each payment of the replaced blocks stays at its height, moves, is replaced by
   * another, or is gone.
   */
  async #reorg(): Promise<void> {
    const {height} = await this.#world.chain.head()
    const depth = this.#random.between(1, finalDepth)
    const above = height - depth
    const again: Record<number, Payment[]> = Object.fromEntries(Array.from({length: depth}, (_, at) => [at, []]))
    const back: Payment[] = []
    for (const {payment, place} of this.#world.signed) {
      if (typeof place !== 'object' || place.height <= above) continue
      const fate = this.#random.weighted({stays: 3, moves: 3, replaced: 2, dropped: 2, unconfirmed: 2})
      const at = fate === 'stays' ? place.height - above - 1 : this.#random.between(0, depth - 1)
      if (fate === 'replaced') again[at]!.push(await this.#sign(payment))
      else if (fate === 'unconfirmed') back.push(payment)
      else if (fate !== 'dropped') again[at]!.push(payment)
      this.#note(`${payment.txid} ${fate} ${at}`)
    }
    await this.#world.reorg(depth, again)
    for (const payment of back) await this.#world.send(payment)
  }
}
