// Runs one bench, and prints each result as soon as it is ready, with the seconds since the bench began.
import {type Report, type Result, row} from './result.ts'

export type Bench = (report: Report) => Promise<void>

export interface Measured {
  name: string
  results: Result[]
  seconds: number
  /** Why it ended early. */
  failure?: string
}

/** Promises not to throw: the others of a run go on, and the program's exit code says that one failed. */
export async function run(name: string, bench: Bench): Promise<Measured> {
  console.log(`\n${name} ...`)
  const began = performance.now()
  const seconds = () => (performance.now() - began) / 1000
  const results: Result[] = []
  try {
    await bench(result => {
      results.push(result)
      console.log(`${row(result)} ${seconds().toFixed(0)} s`)
    })
    return {name, results, seconds: seconds()}
  } catch (error) {
    process.exitCode = 1
    console.error(error)
    return {name, results, seconds: seconds(), failure: String(error)}
  } finally {
    console.log(`${name} took ${seconds().toFixed(0)} s`)
  }
}
