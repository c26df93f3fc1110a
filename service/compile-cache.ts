// Loaded by npm start before the supervisor: keeps what Node makes of its modules, beside those of npm's packages.
// From the second start on, the supervisor takes 8 MB less. (Other processes have directories of their own: users.ts.)
// Whoever could write there can change the program itself. Without the right to write it, nothing is kept.
import {enableCompileCache} from 'node:module'
import {fileURLToPath} from 'node:url'

enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/sluice', import.meta.url)))
