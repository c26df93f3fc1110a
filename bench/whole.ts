// A whole run: all benches of all topics between two measurements of the machine, and bench/RESULTS.md of it.
import {execFileSync} from 'node:child_process'
import {writeFileSync} from 'node:fs'
import {cpus, totalmem} from 'node:os'
import {benchMachine} from './machine.ts'
import {number, row} from './result.ts'
import {type Bench, type Measured, run} from './run.ts'

/** A machine that changed by more between the two is not the same one. */
const changeMax = 0.2

export async function runWhole(topics: Record<string, Record<string, Bench>>): Promise<void> {
  const commit = execFileSync('git', ['describe', '--always', '--dirty', '--exclude=*'], {encoding: 'utf8'}).trim()
  const began = performance.now()
  const before = await run('machine', benchMachine)
  const sections: string[] = []
  for (const [topic, benches] of Object.entries(topics)) {
    const measured: Measured[] = []
    for (const [name, bench] of Object.entries(benches)) measured.push(await run(name, bench))
    sections.push(sectionOf(topic, measured))
  }
  const after = await run('machine', benchMachine)
  const minutes = ((performance.now() - began) / 60_000).toFixed(0)
  const text = [head(commit, minutes), machineSection(before, after), ...sections].join('\n')
  writeFileSync(new URL('RESULTS.md', import.meta.url), text)
  console.log(`\n${minutes} minutes; written to bench/RESULTS.md`)
}

function head(commit: string, minutes: string): string {
  const machine = `${cpus().length} × ${cpus()[0]!.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB`
  return `# What was measured

\`npm run bench\` wrote this at ${commit}, in ${minutes} minutes, on ${machine},
Node ${process.version}, PostgreSQL 18 with fsync on. Each ratio is to a floor that the same run measured; the top of each file in \`bench/\` says which.
What a whole run leaves out is in [BY-HAND.md](BY-HAND.md).
`
}

function machineSection(before: Measured, after: Measured): string {
  const laters = before.results.map((_, n) => after.results[n]?.value ?? Number.NaN)
  const changes = before.results.map(({value}, n) => laters[n]! / value - 1)
  const rows = before.results.map(({what, value, unit}, n) => {
    const percent = (100 * changes[n]!).toFixed(0)
    return `| ${what} | ${number(value)} ${unit} | ${number(laters[n]!)} | ${percent} % |`
  })
  const isSame = changes.every(change => Math.abs(change) <= changeMax)
  const warning =
    '\n**This run is not comparable with others**: the machine itself changed by more than 20 % meanwhile.\n'
  return `## The machine itself

| what | before the run | after it | change |
|---|---|---|---|
${rows.join('\n')}
${isSame ? '' : warning}`
}

function sectionOf(topic: string, measured: Measured[]): string {
  const took = measured.map(({name, seconds}) => `\`${name}\` ${seconds.toFixed(0)} s`).join(', ')
  const failed = measured.filter(({failure}) => failure).map(({name, failure}) => `\n\`${name}\` failed: ${failure}\n`)
  return `## ${topic}

\`npm run bench ${measured.map(({name}) => name).join(' ')}\` (${took}):
${failed.join('')}
| what | measured | floor | ratio | aim |
|---|---|---|---|---|
${measured.flatMap(({results}) => results.map(row)).join('\n')}
`
}
