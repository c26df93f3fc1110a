// The ratios of a quick run, beside those in bench/quick.json. One that is worse by half fails the run, unless a second
// try of its bench is better: machines have moments of their own.
import {readFileSync, writeFileSync} from 'node:fs'
import {type Result, ratioOf} from './result.ts'
import {type Bench, run} from './run.ts'

const file = new URL('quick.json', import.meta.url)

/** With `keep`, writes the file. */
export async function runQuick(benches: Record<string, Bench>, keep?: boolean): Promise<void> {
  const kept: Record<string, number> = keep ? {} : JSON.parse(readFileSync(file, 'utf8'))
  const all: Result[] = []
  for (const [name, bench] of Object.entries(benches)) {
    let {results} = await run(name, bench)
    if (results.some(result => isHalved(result, kept))) results = (await run(name, bench)).results
    all.push(...results.filter(result => ratioOf(result) !== undefined))
  }
  if (keep) {
    const ratios = Object.fromEntries(all.map(result => [result.what, Number(ratioOf(result)!.toFixed(3))]))
    writeFileSync(file, `${JSON.stringify(ratios, null, 2)}\n`)
    return
  }
  console.log('\n| what | ratio kept | now |\n|---|---|---|')
  for (const result of all) {
    const note = isHalved(result, kept) ? ' **half as good**' : ''
    console.log(`| ${result.what} | ${kept[result.what]?.toFixed(2) ?? ''} | ${ratioOf(result)!.toFixed(2)}${note} |`)
  }
  if (all.some(result => isHalved(result, kept))) process.exitCode = 1
}

/** Of a rate, a larger ratio is better; of a time or a size, a smaller one. */
function isHalved(result: Result, kept: Record<string, number>): boolean {
  const [before, now] = [kept[result.what], ratioOf(result)]
  if (before === undefined || now === undefined) return false
  return result.unit.endsWith('/s') ? now < before / 2 : now > before * 2
}
