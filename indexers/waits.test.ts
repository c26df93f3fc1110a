// What is told about a chain that cannot be followed, by several parts of an indexer.
import {pino} from 'pino'
import {expect, test} from 'vitest'
import type {Logger} from '../base/log.ts'
import {noteOfDatabase} from '../db/client/failure.ts'
import {Waiting, Waits, type Why, whyOf} from './waits.ts'

const behind: Why = {reason: 'node_behind', message: 'it lacks a block'}
const away: Why = {reason: 'node_unavailable', message: 'it is away'}

function waits() {
  const written: (string | undefined)[] = []
  const logged: string[] = []
  const log = {warn: ({reason}: {reason: string}) => logged.push(reason)} as unknown as Logger
  return {waits: new Waits(async why => void written.push(why?.reason)), written, logged, log}
}

test('a part that works again does not remove the reason of another part', async () => {
  const {waits: of, written, log} = waits()
  await of.tell('reading', away, {log})
  await of.tell('finality', behind, {log})
  await of.end('reading')
  expect(written.at(-1)).toBe('node_behind')
  await of.end('finality')
  expect(written.at(-1)).toBeUndefined()
})

test('a reason that an earlier process left is removed by the first part that works, and nothing is written while nothing changes', async () => {
  const {waits: of, written} = waits()
  for (let round = 0; round < 3; round++) await of.end('reading')
  expect(written).toEqual([undefined])
})

test('what may pass by itself is not recorded before it has lasted, and never if it passes', async () => {
  const {waits: of, written, logged, log} = waits()
  await of.end('reading')
  await of.tell('reading', away, {log, afterMs: 60_000})
  await of.end('reading')
  expect([written, logged]).toEqual([[undefined], ['node_unavailable']])
  await of.tell('reading', behind, {log, afterMs: 0})
  expect(written.at(-1)).toBe('node_behind')
})

test('a reason is logged at once and then once a minute; another one, or the same after an end, at once', async () => {
  const {waits: of, logged, log} = waits()
  for (let round = 0; round < 5; round++) await of.tell('reading', away, {log})
  expect(logged).toEqual(['node_unavailable'])
  await of.tell('reading', behind, {log})
  await of.end('reading')
  await of.tell('reading', behind, {log})
  expect(logged).toEqual(['node_unavailable', 'node_behind', 'node_behind'])
})

test('a part that says what it waits for does not hang; one whose failures may pass, or that is silent, may', async () => {
  const {waits: of, log} = waits()
  expect(of.silentMs('reading')).toBe(Number.POSITIVE_INFINITY)
  await of.tell('reading', away, {log, afterMs: 60_000})
  expect(of.silentMs('reading')).toBe(Number.POSITIVE_INFINITY)
  await of.tell('reading', behind, {log})
  expect(of.silentMs('reading')).toBeLessThan(10_000)
})

test('an error is the reason that it carries, or the node; URLs are shortened, because they may hold a key', () => {
  expect(whyOf(new Waiting('start_unknown', 'why', 7))).toEqual({
    reason: 'start_unknown',
    message: 'why',
    firstHeight: 7,
  })
  expect(whyOf(new Error('no answer from https://user:secret@node.example/v3/key'))).toEqual({
    reason: 'node_unavailable',
    message: 'no answer from node.example',
  })
})

const refused: Why = {reason: 'state_pruned', message: 'the state is pruned'}
const quiet: Why = {reason: 'node_unavailable', message: 'the node lacks a block'}

function told() {
  const lines: string[] = []
  const log = pino({level: 'warn'}, {write: (line: string) => void lines.push(line)})
  let recorded: Why | undefined
  const waits = new Waits(async why => {
    recorded = why
  })
  return {waits, log, lines, recorded: () => recorded?.reason}
}

test('a reason that is told stays told when the same part fails in another way', async () => {
  const {waits, log, recorded} = told()
  await waits.tell('reading', refused, {log})
  expect(recorded()).toBe('state_pruned')
  await waits.tell('reading', quiet, {log, afterMs: 20_000})
  expect(recorded()).toBeDefined()
})

test('two parts that wait at once are each logged once a minute', async () => {
  const {waits, log, lines} = told()
  for (let i = 0; i < 5; i++) {
    await waits.tell('reading', refused, {log})
    await waits.tell('finality', quiet, {log})
  }
  expect(lines.length).toBe(2)
})

test('a reason whose record lost its response ends all the same', async () => {
  const {log} = told()
  let recorded: Why | undefined
  let loses = false
  const waits = new Waits(async why => {
    recorded = why
    if (!loses) return
    const error = new Error('Connection terminated unexpectedly')
    noteOfDatabase(error)
    throw error
  })
  await waits.end('reading')
  loses = true
  await waits.tell('reading', refused, {log}) // committed, but the connection broke before the response
  loses = false
  await waits.end('reading')
  expect(recorded).toBeUndefined()
})
