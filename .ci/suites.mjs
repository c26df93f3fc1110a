// Runs both suites of tests. Files in which a test failed run once more, alone: a machine that stood still for a while
// is told from broken code, and what failed beside others is named at the end. More failing files than `fewFiles` are
// broken code. Ends with the number of tests; exit code 1 if any failed.
import {spawnSync} from 'node:child_process'
import {existsSync, mkdtempSync, readFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'

const fewFiles = 8
const results = mkdtempSync(path.join(tmpdir(), 'results-'))

/** Runs tests with vitest's own output. Returns vitest's results, one per file, and whether all is well. */
function run(name, npm, ...options) {
  const file = path.join(results, name)
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${file}`]
  const {status} = spawnSync('npm', [...npm, '--', ...reporters, ...options], {stdio: 'inherit'})
  const {testResults} = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {testResults: []}
  return {isRight: status === 0, files: testResults}
}

const testsOf = (files, ...states) =>
  files.flatMap(file => file.assertionResults.filter(test => states.includes(test.status)))
const isWrong = file => file.status === 'failed'
const described = ({fullName, failureMessages}) => `${fullName}\n${failureMessages.join('\n').slice(0, 4000)}\n`

let isRight = true
const all = []
/** What failed in the first runs, and ran again. */
const besideOthers = []
for (const [name, npm] of Object.entries({quick: ['test'], faults: ['run', 'test:faults']})) {
  const first = run(name, npm)
  const wrong = first.files.filter(isWrong)
  const isAgain = !first.isRight && wrong.length > 0 && wrong.length <= fewFiles
  const last = isAgain ? run(`${name}-again`, npm, '--no-file-parallelism', ...wrong.map(file => file.name)) : first
  if (isAgain) besideOthers.push(...testsOf(wrong, 'failed'))
  all.push(...first.files.filter(file => !isAgain || !isWrong(file)), ...(isAgain ? last.files : []))
  isRight &&= last.isRight
}
for (const test of besideOthers) console.log(`failed beside others: ${described(test)}`)
for (const test of testsOf(all, 'failed')) console.log(`FAILED: ${described(test)}`)
const count = (...states) => testsOf(all, ...states).length
console.log(`${count('passed')} passed, ${count('failed')} failed, ${count('pending', 'skipped', 'todo')} skipped`)
process.exitCode = isRight ? 0 : 1
