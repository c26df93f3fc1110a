// Custody and a worker that are killed with kill -9, and start again. Promises: each death is one that was wanted, and
// is counted by its place.
import type {ChildProcess} from 'node:child_process'
import {once} from 'node:events'
import {existsSync, rmSync, writeFileSync} from 'node:fs'
import path from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import type {MadeUpWorld} from '../support/madeup/world.ts'
import {until} from '../support/until.ts'

export type VictimName = 'custody' | 'jobs'

const mostWaitMs = 1500

export class Victim {
  readonly #file: string
  readonly #start: () => Promise<ChildProcess>
  readonly #name: VictimName
  readonly #counts: Map<string, number>
  #process: ChildProcess | undefined
  #place: string | undefined
  #isOver = false
  readonly #kept: Promise<void>
  wrong: string | undefined

  constructor(world: MadeUpWorld, name: VictimName, counts: Map<string, number>) {
    this.#name = name
    this.#counts = counts
    this.#file = path.join(world.home, `kill-${name}`)
    this.#start = () => (name === 'custody' ? world.startCustody() : world.startWorker())
    this.#kept = this.#keep(name === 'custody' ? world.custody.process : undefined)
  }

  async #keep(first: ChildProcess | undefined): Promise<void> {
    for (let next = first; !this.#isOver; next = undefined) {
      const process = next ?? (await this.#start())
      const exited = once(process, 'exit')
      this.#process = process
      const [code, signal] = await exited
      this.#process = undefined
      if (this.#isOver) return
      if (signal !== 'SIGKILL' || !this.#place) this.wrong = `${this.#name} ended by itself: ${code ?? signal}`
      const what = `kill -9 of ${this.#name} ${this.#place}`
      this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1)
      if (!existsSync(this.#file)) this.#place = undefined // else it died at an earlier step than the one that was ordered since
    }
  }

  async #ready(): Promise<void> {
    await until(async () => this.#process, {timeoutMs: 60_000, what: `${this.#name} to be ready`})
  }

  /** It dies when it reaches this step; false if it did not in time. */
  async dieAt(label: string): Promise<boolean> {
    await this.#ready()
    this.#place = `at ${label}`
    writeFileSync(this.#file, label)
    for (const deadline = Date.now() + mostWaitMs; Date.now() < deadline; await sleep(10)) if (!this.#place) return true
    return false // it still dies there, if it gets there before the next order
  }

  /** It dies after this time, wherever it is. */
  async dieIn(ms: number): Promise<void> {
    await this.#ready()
    await sleep(ms)
    if (!this.#process) return
    rmSync(this.#file, {force: true})
    this.#place = 'at some moment'
    this.#process.kill('SIGKILL')
  }

  /** It dies no more, and works. */
  async calm(): Promise<void> {
    rmSync(this.#file, {force: true})
    await this.#ready()
  }

  async end(): Promise<void> {
    await this.#ready()
    this.#isOver = true
    this.#process?.kill('SIGKILL')
    await this.#kept
  }
}
