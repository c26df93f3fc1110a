// The ratios of a quick run, beside those in bench/quick.json. One that is worse by half, or missing, fails the run,
// unless a second try of its bench is better: machines have moments of their own.
import {readFileSync, writeFileSync} from 'node:fs'
import {type Result, ratioOf} from './result.ts'
import {type Bench, run} from './run.ts'

const file = new URL('quick.json', import.meta.url)

/** The ratios by what they are of. */
type Ratios = Record<string, number>

interface Compared {
  what: string
  kept?: number
  now?: number
  isWorse: boolean
}

/** With `keep`, writes the file. */
export async function runQuick(benches: Record<string, Bench>, keep?: boolean): Promise<void> {
  const kept: Record<string, Ratios> = keep ? {} : JSON.parse(readFileSync(file, 'utf8'))
  const all: Compared[] = []
  for (const [name, bench] of Object.entries(benches)) {
    const measure = async () => ours((await run(name, bench)).results)
    let results = await measure()
    if (keep) kept[name] = Object.fromEntries(results.map(result => [result.what, Number(ratioOf(result)!.toFixed(3))]))
    if (compared(results, kept[name]).some(({isWorse}) => isWorse)) results = await measure()
    all.push(...compared(results, kept[name]))
  }
  if (keep) return writeFileSync(file, `${JSON.stringify(kept, null, 2)}\n`)
  console.log('\n| what | ratio kept | now |\n|---|---|---|')
  for (const {what, kept, now, isWorse} of all)
    console.log(
      `| ${what} | ${kept?.toFixed(2) ?? ''} | ${now?.toFixed(2) ?? 'not measured'}${isWorse ? ' **too bad**' : ''} |`,
    )
  if (all.some(({isWorse}) => isWorse)) process.exitCode = 1
}

const ours = (results: Result[]) => results.filter(result => ratioOf(result) !== undefined && !result.isReference)

function compared(results: Result[], kept: Ratios = {}): Compared[] {
  const missing = Object.keys(kept).filter(what => !results.some(result => result.what === what))
  return [
    ...missing.map(what => ({what, kept: kept[what], isWorse: true})),
    ...results.map(result => {
      const {what} = result
      return {what, kept: kept[what], now: ratioOf(result)!, isWorse: isHalved(result, kept[what])}
    }),
  ]
}

/** Of a rate, a larger ratio is better; of a time or a size, a smaller one. */
function isHalved(result: Result, kept: number | undefined): boolean {
  const now = ratioOf(result)!
  if (kept === undefined) return false
  return result.unit.endsWith('/s') ? now < kept / 2 : now > kept * 2
}
