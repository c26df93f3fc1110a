// npm start loads this first: it keeps the compiled modules of the supervisor, which takes 8 MB less from its second
// start on. (Other processes have directories of their own: users.ts.) Whoever can write there decides what the
// supervisor does, so nobody but its user may, and it is only kept for the user who owns the program's files.
import {chmodSync, mkdirSync, statSync} from 'node:fs'
import {enableCompileCache} from 'node:module'
import {fileURLToPath} from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const directory = `${root}node_modules/.cache/sluice`

try {
  if (statSync(root).uid === process.getuid?.()) {
    mkdirSync(directory, {recursive: true})
    chmodSync(directory, 0o700)
    enableCompileCache(directory)
  }
} catch {
  // without the right to write it, nothing is kept
}
