// Runs the model test: npm run model -- --seed N --histories M. It makes a copy of the tree with the made-up family,
// and runs test/model/main.ts there, which says what else it takes. The exit code is 1 if a history failed.
import {runModel} from './support/made-up-tree.ts'

process.exitCode = await runModel(process.argv.slice(2), 'inherit').then(({code}) => code)
