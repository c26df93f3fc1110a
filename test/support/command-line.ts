// The command line as operators and scripts call it: as a process, on a real database.
import {execFile} from 'node:child_process'
import {mkdtempSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import {expect} from 'vitest'
import {type Service, writeService} from '../../base/home.ts'
import type {TestDatabase} from './database.ts'

/** Node runs this file. */
export const program = fileURLToPath(new URL('../../cli/main.ts', import.meta.url))

export interface Ended {
  code: number
  stdout: string
  stderr: string
}

/** Calls it. `home` is the service's SLUICE_HOME; `settings` are added to the environment. */
export function run(given: string[], home: string, settings: Record<string, string> = {}): Promise<Ended> {
  return new Promise(resolve => {
    const environment = {...process.env, ...settings, SLUICE_HOME: home}
    execFile(process.execPath, [program, ...given], {env: environment, cwd: tmpdir()}, (error, stdout, stderr) =>
      resolve({code: error ? Number(error.code) : 0, stdout, stderr}),
    )
  })
}

export class CommandLine {
  readonly home = mkdtempSync(path.join(tmpdir(), 'sluice-cli-'))

  /** Of a service on this database, with these nodes. */
  constructor(db: TestDatabase, chains: Service['chains']) {
    writeService(this.home, {
      pid: process.pid,
      started_at: '2026-01-31T12:00:00.000Z',
      running: true,
      api_url: 'http://127.0.0.1:1',
      database_url: db.ownerUrl,
      webhook_allow_private: false,
      chains,
    })
  }

  /** Calls it, for the service of this database unless another home is given. */
  run = (given: string[], home = this.home, settings?: Record<string, string>): Promise<Ended> =>
    run(given, home, settings)

  sluice = (...given: string[]): Promise<Ended> => this.run(given)

  /** Runs with --json, and expects success and exactly one line. */
  json = async <T = Record<string, unknown>>(...given: string[]): Promise<T> => {
    const {code, stdout, stderr} = await this.run([...given, '--json'])
    expect({code, stderr}).toEqual({code: 0, stderr: ''})
    expect(stdout).toMatch(/^[^\n]+\n$/)
    return JSON.parse(stdout) as T
  }

  /** Runs a command that must fail; returns its output. */
  failure = (...given: string[]): Promise<string> => this.#failed(1, given)

  /** Runs a command line that is wrong; returns its output. */
  misuse = (...given: string[]): Promise<string> => this.#failed(2, given)

  async #failed(expected: number, given: string[]): Promise<string> {
    const {code, stdout, stderr} = await this.run(given)
    expect({code, stdout}).toEqual({code: expected, stdout: ''})
    return stderr
  }

  close(): void {
    rmSync(this.home, {recursive: true})
  }
}
