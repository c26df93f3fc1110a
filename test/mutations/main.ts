// npm run mutations [-- --only PATTERN]: takes each rule of the lists out of a copy of the code, in turn, and runs the tests that guard it. Writes which test
// failed to RESULTS.md (only without --only); ends with 1 if no test noticed that a rule was missing. Two run at a time.
import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {parseArgs} from 'node:util'
import {z} from 'zod'
import {type Mutation, root} from './mutation.ts'
import {mutations} from './rules.ts'

const atOnce = 2
/** A test that hangs without its rule has noticed, too. */
const longestMs = 600_000

const {values} = parseArgs({options: {only: {type: 'string', default: ''}}})

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

interface Outcome extends Mutation {
  /** The tests that failed, or what ended the run. */
  failed: string[]
}

/** A copy of the tree; whoever asked for it removes it. */
function copyTree(): string {
  const copy = mkdtempSync(path.join(tmpdir(), 'sluice-mutations-'))
  const notCopied = ['.git', '.sluice', 'node_modules']
  cpSync(root, copy, {recursive: true, filter: file => !notCopied.includes(path.basename(file))})
  for (const packages of ['node_modules', 'devnet/bitcoin/bcoin/node_modules'])
    symlinkSync(path.join(root, packages), path.join(copy, packages))
  return copy
}

async function failuresWithout({file, from, to, tests}: Mutation, copy: string): Promise<string[]> {
  const changed = path.join(copy, file)
  const text = readFileSync(changed, 'utf8')
  if (text.split(from).length !== 2) throw new Error(`${file} does not have this text once: ${from}`)
  writeFileSync(
    changed,
    text.replace(from, () => to),
  )
  try {
    return await failuresOf(tests, copy)
  } finally {
    writeFileSync(changed, text)
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
  const {testResults} = Report.parse(JSON.parse(readFileSync(report, 'utf8')))
  return testResults.flatMap(({name, message, assertionResults}) => {
    const file = path.relative(copy, name)
    const failed = assertionResults.filter(({status}) => status === 'failed').map(({title}) => `${file}: ${title}`)
    return failed.length || !message ? failed : [`${file}: ${message.split('\n')[0]}`]
  })
}

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ')

function table(outcomes: Outcome[]): string {
  const rows = outcomes.map(({rule, file, failed}) => `| ${cell(rule)} | ${file} | ${cell(failed[0] ?? '**none**')} |`)
  return ['| rule | taken out of | test that fails then |', '|---|---|---|', ...rows].join('\n')
}

async function main(): Promise<void> {
  const chosen = mutations.filter(({rule, file}) => new RegExp(values.only).test(`${rule} (${file})`))
  const left = [...chosen.entries()]
  const outcomes: Outcome[] = []
  const work = async () => {
    const copy = copyTree()
    for (let next = left.shift(); next; next = left.shift()) {
      const [i, mutation] = next
      const failed = await failuresWithout(mutation, copy)
      outcomes[i] = {...mutation, failed}
      console.log(`${failed.length ? 'noticed ' : 'UNNOTICED'} ${mutation.rule} (${mutation.file}): ${failed[0] ?? ''}`)
    }
    rmSync(copy, {recursive: true, force: true})
  }
  await Promise.all(Array.from({length: atOnce}, work))
  const unnoticed = outcomes.filter(({failed}) => !failed.length).length
  const words = `${outcomes.length} rules taken out, one at a time; the tests missed ${unnoticed}.`
  console.log(words)
  const head = `# Rules, and the tests that guard them\n\nWritten by \`npm run mutations\`. The lists are in rules/.\n\n${words}\n\n`
  if (!values.only) writeFileSync(path.join(import.meta.dirname, 'RESULTS.md'), `${head}${table(outcomes)}\n`)
  process.exitCode = unnoticed ? 1 : 0
}

await main()
