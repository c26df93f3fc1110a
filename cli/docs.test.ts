// The commands that the documentation shows are commands: their names, arguments and options are those of the program.
import {globSync, readFileSync} from 'node:fs'
import path from 'node:path'
import {fileURLToPath} from 'node:url'
import type {Command} from 'commander'
import {expect, test} from 'vitest'
import {sluiceProgram} from './program.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
/** How sluice is called, and by containers. */
const call = /(?:npm run -s sluice --|run --rm(?: -T)? cli) (?!\.\.\.|…)([^\n`|&;>#]+)/g
/** Programs of their own, which have tests of theirs. */
const separate = ['custody', 'devnet', 'listen', 'trigger']

const shown = globSync('{README.md,docs/**/*.md}', {cwd: root}).flatMap(file =>
  [
    ...readFileSync(path.join(root, file), 'utf8')
      .replaceAll(/ \\\n +/g, ' ')
      .matchAll(call),
  ].map(([, line]) => `${file}: sluice ${line!.trim()}`),
)

/** What a line has that the program has not; undefined if nothing. */
function wrongIn(line: string): string | undefined {
  const words = line.replace(/^.*?: sluice /, '').split(/\s+/)
  let command: Command = sluiceProgram()
  while (words.length && command.commands.length) {
    const name = words[0]!
    if (name.startsWith('-')) break
    const next = command.commands.find(each => each.name() === name || each.aliases().includes(name))
    if (!next) return `there is no command ${name}`
    words.shift()
    command = next
    if (separate.includes(name)) return undefined
  }
  const options = words.filter(word => /^--[a-z]/.test(word)).map(word => word.replace(/=.*/, ''))
  const known = ['--help', ...command.options.map(({long}) => long)]
  return options.find(option => !known.includes(option))
}

test('the documentation shows commands', () => {
  expect(shown.length).toBeGreaterThan(60)
})

test.each(shown)('%s', line => {
  expect(wrongIn(line)).toBeUndefined()
})

test('what is no command, and an option that a command does not have, would be noticed', () => {
  expect(wrongIn('x: sluice payot list')).toBe('there is no command payot')
  expect(wrongIn('x: sluice payout lst')).toBe('there is no command lst')
  expect(wrongIn('x: sluice payout show pay_1 --loud')).toBe('--loud')
})
