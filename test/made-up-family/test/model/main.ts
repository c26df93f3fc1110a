// Runs histories of the model: node test/model/main.ts --seed N --histories M [--path P] [--kinds height,time]
// [--processes N]. It runs in a copy of the tree with the made-up family (test/model.ts makes it). Each process has its
// share of the histories, a seed that follows from the one given, and a database. The exit code is 1 if a history
// failed; the shortest one that still fails is printed then, with how to run it again. With --kill custody and the
// worker are real processes that are killed (kills.test.ts); --path is the number of a history then.
import {fork, spawn} from 'node:child_process'
import {once} from 'node:events'
import {chmodSync, mkdirSync, mkdtempSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {parseArgs} from 'node:util'
import {startPostgres} from '../../db/server/embedded.ts'
import {makeDatabases} from './database.ts'
import {type KindName, kindNames} from './kinds.ts'
import type {Done, Share} from './share.ts'
import type {Counts} from './world.ts'

const {values} = parseArgs({
  options: {
    seed: {type: 'string', default: String(Date.now() % 2 ** 31)},
    histories: {type: 'string', default: '100'},
    path: {type: 'string'},
    'no-shrinking': {type: 'boolean', default: false},
    kinds: {type: 'string', default: kindNames.join(',')},
    processes: {type: 'string', default: '2'},
    kill: {type: 'boolean', default: false},
  },
})
const seed = Number(values.seed)
const histories = Number(values.histories)
const processes = values.path === undefined ? Math.min(Number(values.processes), histories) : 1

async function main(): Promise<number> {
  const home = mkdtempSync(path.join(tmpdir(), 'sluice-model-'))
  chmodSync(home, 0o755)
  const sockets = path.join(home, 'sockets') // quicker than TCP
  mkdirSync(sockets)
  chmodSync(sockets, 0o777)
  const flags = [
    `-c unix_socket_directories=${sockets}`,
    '-c fsync=off',
    '-c synchronous_commit=off',
    '-c jit=off',
    '-c autovacuum=off',
    '-c full_page_writes=off',
    '-c plan_cache_mode=force_generic_plan',
  ]
  const server = await startPostgres({dir: path.join(home, 'postgres'), flags})
  try {
    const url = new URL(server.url)
    url.searchParams.set('host', sockets)
    const urls = await makeDatabases(String(url), processes)
    const all = await Promise.all(urls.map((url, n) => runShare(shareOf(n, url, path.join(home, `${n}`)))))
    const ran = all.reduce((sum, {histories}) => sum + histories, 0)
    const ms = Math.max(...all.map(({ms}) => ms)) / ran
    console.log(`seed ${seed}, ${ran} histories by ${processes} processes, ${Math.round(ms)} ms each`)
    console.log(inLines(sumOf(all)))
    return all.some(({failed}) => failed) ? 1 : 0
  } finally {
    await server.stop()
    rmSync(home, {recursive: true, force: true})
  }
}

/** The world of kills.test.ts is one of vitest's. */
async function runKills(): Promise<number> {
  const given = {seed, histories, ...(values.path !== undefined && {only: Number(values.path), histories: 1})}
  const program = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'quick', 'test/model/kills.test.ts']
  const env = {...process.env, MODEL_KILLS: JSON.stringify(given)}
  const [code] = await once(spawn(process.execPath, program, {stdio: 'inherit', env}), 'exit')
  return code ?? 1
}

/** The first process has the given seed itself. */
function shareOf(n: number, url: string, home: string): Share {
  return {
    url,
    home,
    seed: (seed + n * 1_000_003) % 2 ** 31,
    histories: Math.floor((histories + n) / processes),
    kinds: values.kinds.split(',') as KindName[],
    isShrunk: !values['no-shrinking'],
    ...(values.path !== undefined && {path: values.path}),
  }
}

async function runShare(share: Share): Promise<Done> {
  const child = fork(path.join(import.meta.dirname, 'share.ts'), [JSON.stringify(share)])
  const ended = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`the process with seed ${share.seed} ended with ${code ?? signal}`)
  })
  ended.catch(() => {}) // it ends after its last message, too
  return await Promise.race([once(child, 'message').then(([done]) => done as Done), ended])
}

function sumOf(all: Done[]): Counts {
  const sum: Counts = new Map()
  for (const {counts} of all) for (const [what, count] of counts) sum.set(what, (sum.get(what) ?? 0) + count)
  return sum
}

function inLines(counts: Counts): string {
  return [...counts]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([what, count]) => `${String(count).padStart(8)}  ${what}`)
    .join('\n')
}

process.exit(values.kill ? await runKills() : await main())
