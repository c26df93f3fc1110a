// A supervised process: how soon it is restarted after it died.
import {fork} from 'node:child_process'
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import pino from 'pino'
import {expect, test} from 'vitest'
import {exitLost} from '../base/lifecycle.ts'
import {commandLine} from '../base/process.ts'
import {kill, pidIn} from '../test/support/processes.ts'
import {until} from '../test/support/until.ts'
import {Child, waitAfter} from './child.ts'

/** The waits after this many ends in a row. */
function waits(how: string, ranMs: number, times: number): number[] {
  const after: number[] = []
  while (after.length < times) after.push(waitAfter(after.at(-1) ?? 0, how, ranMs))
  return after
}

test('a process that fails again and again is restarted less and less often, and at once if it ran well before', () => {
  expect(waits('exit code 1', 0, 9)).toEqual([250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000])
  expect(waitAfter(30_000, 'exit code 1', 9_999)).toBe(30_000)
  expect(waitAfter(30_000, 'exit code 1', 10_000)).toBe(250)
})

test('a process that is killed from outside, or loses the database, restarts after at most a second, however often', () => {
  for (const how of ['SIGKILL', 'SIGTERM', 'exit code 0', 'exit code 70'])
    expect(waits(how, 0, 5)).toEqual([250, 500, 1000, 1000, 1000])
  expect(waitAfter(30_000, 'SIGKILL', 0)).toBe(1000)
  expect(waitAfter(4000, 'SIGABRT', 0)).toBe(8000) // its own doing: out of memory
})

test('a process killed repeatedly restarts each time, and one that cannot run restarts later', async ({
  onTestFinished,
}) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-child-'))
  const waited: Record<string, number[]> = {}
  const log = pino(
    {},
    {
      write: line => {
        const {name, restart_in_ms} = JSON.parse(line)
        waited[name] = [...(waited[name] ?? []), restart_in_ms]
      },
    },
  )
  const start = (name: string, program: string) => {
    const module = path.join(folder, `${name}.mjs`)
    writeFileSync(module, program)
    const child = new Child({name, module, environment: () => process.env, log, onChange() {}})
    child.start().catch(() => {})
    return child
  }
  const well = start('well', "process.send({ready: true}); process.on('disconnect', () => process.exit())")
  const badly = start('badly', 'process.exit(1)')
  onTestFinished(async () => {
    await Promise.all([well, badly].map(child => child.stop(1000)))
    rmSync(folder, {recursive: true})
  })
  for (let kills = 0; kills < 5; kills++) {
    await until(async () => well.state === 'running' && well.restarts === kills, {
      timeoutMs: 20_000,
      what: `start ${kills}`,
    })
    process.kill(well.pid!, 'SIGKILL')
  }
  await until(async () => well.state === 'running' && badly.restarts >= 4, {
    timeoutMs: 20_000,
    what: 'both to be started again',
  })
  expect(waited.well).toEqual([250, 500, 1000, 1000, 1000])
  expect(waited.badly?.slice(0, 4)).toEqual([250, 500, 1000, 2000])
})

test('a process that loses the database before it is ready is started again, and knows since when it is away; one that fails is an error', async ({
  onTestFinished,
}) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-child-'))
  const lines: {level: number; how: string}[] = []
  const log = pino({}, {write: line => void lines.push(JSON.parse(line))})
  const childOf = (name: string, program: string) => {
    const module = path.join(folder, `${name}.mjs`)
    writeFileSync(module, program)
    return new Child({name, module, environment: () => process.env, log, onChange() {}})
  }
  const since = 'process.env.DATABASE_AWAY_SINCE_MS'
  const loser = childOf('loser', `${since} ? process.send({ready: true, url: ${since}}) : process.exit(${exitLost})`)
  const hopeless = childOf('hopeless', `process.exit(${exitLost})`)
  const wrong = childOf('wrong', 'process.exit(1)')
  onTestFinished(async () => {
    await Promise.all([loser, wrong].map(child => child.stop(1000)))
    rmSync(folder, {recursive: true})
  })
  const began = Date.now()
  const {url} = await loser.start()
  expect(Number(url)).toBeGreaterThanOrEqual(began)
  expect(Number(url)).toBeLessThan(Date.now())
  expect([loser.state, loser.restarts, lines]).toEqual(['running', 1, []]) // the process itself says that the database is away
  const starting = hopeless.start()
  await until(async () => hopeless.restarts > 1, {timeoutMs: 20_000, what: 'it to be started again'})
  await Promise.all([expect(starting).rejects.toThrow(/^hopeless ended before it was ready/), hopeless.stop(1000)])
  await expect(wrong.start()).rejects.toThrow('wrong ended before it was ready (exit code 1)')
})

test('a process whose supervisor died while it started ends as soon as it is ready', async ({onTestFinished}) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-child-'))
  const [supervisor, waiting, pidFile] = ['supervisor.mjs', 'waiting.mjs', 'pid'].map(name => path.join(folder, name))
  const lifecycle = path.join(import.meta.dirname, '../base/lifecycle.ts')
  writeFileSync(supervisor!, `import {fork} from 'node:child_process'; fork('${waiting}')`)
  writeFileSync(
    waiting!,
    `import {writeFileSync} from 'node:fs'
     import {announceReady} from '${lifecycle}'
     writeFileSync('${pidFile}', String(process.pid))
     setInterval(() => { if (!process.connected) announceReady() }, 10)`,
  )
  const dying = fork(supervisor!, {stdio: 'ignore'})
  const pid = await pidIn(pidFile!)
  onTestFinished(() => {
    kill(pid, 'SIGKILL')
    rmSync(folder, {recursive: true})
  })
  dying.kill('SIGKILL')
  const isGone = async () => (await commandLine(pid)) === undefined
  await until(isGone, {timeoutMs: 20_000, what: 'the process to end'})
})
