// Rotation of logs, with a real process that writes to one all the time.
import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {existsSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {afterEach, beforeEach, expect, test} from 'vitest'
import {until} from '../test/support/until.ts'
import {rotateLogs} from './rotate-logs.ts'

let directory: string
const file = (name: string) => path.join(directory, name)

beforeEach(() => {
  directory = mkdtempSync(path.join(tmpdir(), 'sluice-logs-'))
})
afterEach(() => rmSync(directory, {recursive: true}))

test('the newest is .1, only the configured number is kept, and small files and other files stay', () => {
  for (const content of ['first', 'second', 'third', 'fourth']) {
    writeFileSync(file('api.log'), content)
    rotateLogs([directory, file('none')], {maxBytes: 4, kept: 2})
  }
  writeFileSync(file('api.log'), 'tiny')
  writeFileSync(file('service.json'), 'large enough')
  rotateLogs([directory], {maxBytes: 4, kept: 2})
  const found = readdirSync(directory).map(name => [name, readFileSync(file(name), 'utf8')])
  expect(Object.fromEntries(found)).toEqual({
    'api.log': 'tiny',
    'api.log.1': 'fourth',
    'api.log.2': 'third',
    'service.json': 'large enough',
  })
})

test('a process that writes to a rotated log continues at the start of the emptied file', async () => {
  const log = openSync(file('busy.log'), 'a')
  const program = 'let n = 0; setInterval(() => console.log("line " + ++n), 1)'
  const child = spawn(process.execPath, ['-e', program], {stdio: ['ignore', log, 'inherit']})
  const size = () => statSync(file('busy.log')).size
  try {
    await until(async () => size() > 500, {timeoutMs: 10_000, what: 'the process to write'})
    rotateLogs([directory], {maxBytes: 500, kept: 2})
    expect(existsSync(file('busy.log.1'))).toBe(true)
    await until(async () => size() > 500, {timeoutMs: 10_000, what: 'the process to write on'})
  } finally {
    child.kill()
    await once(child, 'exit')
  }
  const numbers = ['busy.log.1', 'busy.log'].map(name =>
    readFileSync(file(name), 'utf8')
      .trim()
      .split('\n')
      .map(line => Number(line.replace('line ', ''))),
  )
  for (const each of numbers) expect(each).toEqual(each.map((_, i) => each[0]! + i)) // whole lines, none between them
  expect(numbers[1]![0]).toBeGreaterThan(numbers[0]!.at(-1)!)
})
