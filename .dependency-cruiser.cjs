// The import rules: processes meet in Postgres and nowhere else. docs/architecture.md says why.
const processes = ['indexers', 'api', 'jobs', 'custody']
const shared = '^(db|chains|service|base)/'

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: 'keys-stay-in-custody',
      comment: 'custody/ holds keys: nothing imports it, but the bench of how fast it signs, with keys of its own.',
      severity: 'error',
      from: {pathNot: '^(custody/|bench/sign-bitcoin\\.ts$)'},
      to: {path: '^custody/'},
    },
    {
      name: 'no-devnet-in-production',
      comment: 'devnet/ is for the demo and the tests. The supervisor and the command line start it as a program.',
      severity: 'error',
      from: {pathNot: '^(devnet|demo|test|bench)/|\\.test\\.ts$'},
      to: {path: '^(devnet|demo|test|bench)/'},
    },
    ...processes.map(process => ({
      name: `${process}-stands-alone`,
      comment: 'A process imports its own folder and what all share; the rest it learns from the database.',
      severity: 'error',
      from: {path: `^${process}/`, pathNot: '\\.test\\.ts$'},
      to: {path: `^(${[...processes, 'cli', 'devnet', 'demo'].filter(other => other !== process).join('|')})/`},
    })),
    {
      name: 'shared-knows-nobody',
      comment: 'What all share imports none of those who share it.',
      severity: 'error',
      from: {path: shared, pathNot: '\\.test\\.ts$'},
      to: {path: `^(${[...processes, 'cli'].join('|')})/`},
    },
    {
      name: 'registry-is-data',
      comment: 'No I/O, no settings: it imports nothing.',
      severity: 'error',
      from: {path: '^chains/registry\\.ts$'},
      to: {pathNot: '^$'},
    },
    {
      name: 'base-knows-nothing',
      comment: 'What every process uses: nothing of chains, of the database or of the service.',
      severity: 'error',
      from: {path: '^base/', pathNot: '\\.test\\.ts$'},
      to: {pathNot: '^(base|node_modules)/', dependencyTypesNot: ['core']},
    },
    {name: 'no-cycles', severity: 'error', from: {}, to: {circular: true}},
    {name: 'no-unresolved', severity: 'error', from: {}, to: {couldNotResolve: true}},
  ],
  options: {
    doNotFollow: {path: 'node_modules'},
    exclude: {path: '^(node_modules|\\.sluice)/'},
    tsPreCompilationDeps: true,
    tsConfig: {fileName: 'tsconfig.json'},
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
}
