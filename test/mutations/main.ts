// npm run mutations [LIST ...] [-- --only PATTERN]: takes each rule of the lists (all, or those named: rules/) out of a
// copy of the code, in turn, and runs the tests that guard it. Prints which test failed; ends with 1 if no test noticed
// that a rule was missing. Two run at a time.
import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {parseArgs} from 'node:util'
import {z} from 'zod'
import {codeOf, type Mutation, placeOf, root} from './mutation.ts'
import {lists} from './rules.ts'

const atOnce = 2
/** A test that hangs without its rule has noticed, too. */
const longestMs = 600_000

const {values, positionals} = parseArgs({options: {only: {type: 'string', default: ''}}, allowPositionals: true})

/** As vitest writes it. */
const Report = z.object({
  testResults: z.array(
    z.object({
      name: z.string(),
      message: z.string(),
      assertionResults: z.array(z.object({title: z.string(), status: z.string()})),
    }),
  ),
})

/** A copy of the tree; whoever asked for it removes it. */
function copyTree(): string {
  const copy = mkdtempSync(path.join(tmpdir(), 'sluice-mutations-'))
  const notCopied = ['.git', '.sluice', 'node_modules']
  cpSync(root, copy, {recursive: true, filter: file => !notCopied.includes(path.basename(file))})
  for (const packages of ['node_modules', 'devnet/bitcoin/bcoin/node_modules'])
    symlinkSync(path.join(root, packages), path.join(copy, packages))
  return copy
}

async function failuresWithout(mutation: Mutation, copy: string): Promise<string[]> {
  const {from, to, tests} = mutation
  const {
    file,
    parts: [before, code, behind],
  } = codeOf(mutation, copy)
  if (code.split(from).length !== 2) throw new Error(`${placeOf(mutation)} does not have this text once: ${from}`)
  writeFileSync(file, before + code.replace(from, () => to) + behind)
  try {
    return await failuresOf(tests, copy)
  } finally {
    writeFileSync(file, before + code + behind)
  }
}

async function failuresOf(tests: string[], copy: string): Promise<string[]> {
  const report = path.join(copy, 'report.json')
  rmSync(report, {force: true})
  const reporters = ['--reporter=json', `--outputFile=${report}`]
  const vitest = [path.join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--bail=1', ...reporters, ...tests]
  const child = spawn(process.execPath, vitest, {cwd: copy, stdio: 'ignore', timeout: longestMs})
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code === 0) return []
  if (code === null) return ['did not end in ten minutes']
  if (!existsSync(report)) return [`the runner of tests ended with code ${code}, and no report`]
  const {testResults} = Report.parse(JSON.parse(readFileSync(report, 'utf8')))
  return testResults.flatMap(({name, message, assertionResults}) => {
    const file = path.relative(copy, name)
    const failed = assertionResults.filter(({status}) => status === 'failed').map(({title}) => `${file}: ${title}`)
    return failed.length || !message ? failed : [`${file}: ${message.split('\n')[0]}`]
  })
}

/** For each, the tests that failed, or what ended the run. */
async function outcomesOf(mutations: Mutation[]): Promise<string[][]> {
  const left = [...mutations.entries()]
  const outcomes: string[][] = []
  const work = async () => {
    const copy = copyTree()
    for (let next = left.shift(); next; next = left.shift()) {
      const [i, mutation] = next
      const failed = await failuresWithout(mutation, copy)
      outcomes[i] = failed
      console.log(
        `${failed.length ? 'noticed ' : 'UNNOTICED'} ${mutation.rule} (${placeOf(mutation)}): ${failed[0] ?? ''}`,
      )
    }
    rmSync(copy, {recursive: true, force: true})
  }
  await Promise.all(Array.from({length: atOnce}, work))
  return outcomes
}

async function main(): Promise<void> {
  const only = new RegExp(values.only)
  for (const name of positionals.length ? positionals : Object.keys(lists)) {
    const list = lists[name]
    if (!list) throw new Error(`there is no list ${name}; the lists are ${Object.keys(lists).join(', ')}`)
    const outcomes = await outcomesOf(list.filter(mutation => only.test(`${mutation.rule} (${placeOf(mutation)})`)))
    const missed = outcomes.filter(failed => !failed.length).length
    console.log(`${name}: ${outcomes.length} rules taken out, one at a time; the tests missed ${missed}.`)
    if (missed) process.exitCode = 1
  }
}

await main()
