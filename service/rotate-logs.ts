// Keeps the logs of npm start from filling the disk. Promises: a file *.log of these directories that is over the limit
// becomes NAME.1, NAME.1 becomes NAME.2, and so on up to `kept`. Its writers, such as Postgres and processes of an
// earlier start, are not disturbed: every writer appends, so the file is copied and emptied instead of renamed. A line
// that is written between the two is lost.
import {copyFileSync, existsSync, readdirSync, renameSync, statSync, truncateSync} from 'node:fs'
import path from 'node:path'

export interface Rotation {
  maxBytes: number
  kept: number
}

export function rotateLogs(directories: string[], {maxBytes, kept}: Rotation): void {
  for (const directory of directories.filter(each => existsSync(each)))
    for (const name of readdirSync(directory))
      if (name.endsWith('.log')) rotate(path.join(directory, name), {maxBytes, kept})
}

function rotate(file: string, {maxBytes, kept}: Rotation): void {
  if (statSync(file).size <= maxBytes) return
  for (let n = kept - 1; n >= 1; n--) if (existsSync(`${file}.${n}`)) renameSync(`${file}.${n}`, `${file}.${n + 1}`)
  copyFileSync(file, `${file}.1`)
  truncateSync(file)
}
