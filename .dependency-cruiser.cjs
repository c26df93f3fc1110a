// The import rules: who may know of whom. Processes meet in Postgres and nowhere else, what is below knows nothing of
// what is above, and a family of chains is a plug. docs/architecture.md says why.
const {readdirSync} = require('node:fs')
const path = require('node:path')

/** What each folder may import besides itself. */
const mayImport = {
  base: [],
  chains: ['base'],
  db: ['base', 'chains'],
  indexers: ['base', 'chains', 'db'],
  reading: ['base', 'chains'],
  api: ['base', 'chains', 'db', 'reading'],
  dashboard: ['base', 'chains', 'db', 'reading'],
  jobs: ['base', 'chains', 'db'],
  custody: ['base', 'chains', 'db'],
  service: ['base', 'chains', 'db'],
  cli: ['base', 'chains', 'db', 'indexers', 'jobs'],
  devnet: ['base', 'chains'],
}
const folders = [...Object.keys(mayImport), 'demo', 'test', 'bench', 'docker', 'samples']
const tests = '\\.test\\.ts$|^(test|bench|demo|docker)/'
/** Tests that run for every family, with a folder for each, have the walls of the other rooms. */
const singleTests = '\\.test\\.ts$|^(test/(?!(conformance|torture)/)|(bench|demo|docker)/)'

/** Each family of chains is a folder of chains/, and of the rooms that need one. */
const families = readdirSync(path.join(__dirname, 'chains'), {withFileTypes: true})
  .filter(entry => entry.isDirectory())
  .map(({name}) => name)
  .join('|')
const familyFolder = `^(?!node_modules/)(.+)/(${families})/`
const clients = '^chains/([^/]+/(client|electrum|electrum-connection|rpc)|clients)\\.ts$'

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: 'keys-stay-in-custody',
      comment:
        'custody/ holds keys: nothing imports it, but the bench of how fast it signs, and the model of what it signs, with keys of their own.',
      severity: 'error',
      from: {pathNot: '^(custody/|bench/sign-bitcoin\\.ts$|test/model/)'},
      to: {path: '^custody/'},
    },
    ...Object.entries(mayImport).map(([folder, others]) => ({
      name: `${folder}-looks-down`,
      comment:
        'What all share imports none of those who share it. A process imports its own folder and what all share; the rest it learns from the database. devnet/ is for the demo and the tests: the supervisor and the command line start it as a program.',
      severity: 'error',
      from: {path: `^${folder}/`, pathNot: tests},
      to: {path: `^(${folders.filter(other => other !== folder && !others.includes(other)).join('|')})/`},
    })),
    {
      name: 'sdk-stands-alone',
      comment: 'The client library is a package of its own: it imports nothing of the service, nor the service of it.',
      severity: 'error',
      from: {path: '^sdk/', pathNot: '\\.test\\.ts$'},
      to: {path: '^(?!sdk/|node_modules/standardwebhooks/)', pathNot: '^(node:)?(util|crypto)$'},
    },
    {
      name: 'sdk-is-for-merchants',
      comment:
        'The client library is a package of its own: the service imports nothing of it. sluice trigger uses it as a merchant does.',
      severity: 'error',
      from: {pathNot: `^(sdk|samples)/|^devnet/trigger\\.ts$|${tests}`},
      to: {path: '^sdk/'},
    },
    {
      name: 'registry-is-data',
      comment: 'No I/O, no settings: it imports nothing.',
      severity: 'error',
      from: {path: '^chains/registry\\.ts$'},
      to: {pathNot: '^$'},
    },
    {
      name: 'families-stand-apart',
      comment:
        "A family's folder imports that of the same family in chains/ and in its own room, a test's those in devnet/ and test/support/, and no other family's.",
      severity: 'error',
      from: {path: familyFolder, pathNot: singleTests},
      to: {path: familyFolder, pathNot: '^(chains|devnet|test/support|$1)/$2/'},
    },
    {
      name: 'families-are-plugs',
      comment:
        "A family's folder is imported by the families.ts of its room alone: nothing else knows which families there are.",
      severity: 'error',
      from: {
        pathNot: `${singleTests}|${familyFolder}|(^|/)families\\.ts$|^chains/clients\\.ts$`,
      },
      to: {path: familyFolder},
    },
    {
      name: 'nodes-are-out-of-reach',
      comment:
        'Custody judges by its journal and the database, which knows no node either; the API and the dashboard never wait for one.',
      severity: 'error',
      from: {path: '^(custody|db|api|dashboard)/', pathNot: tests},
      to: {path: clients, reachable: true},
    },
    {
      name: 'only-clients-connect',
      comment: 'The rest of chains/ can be used where nodes are out of reach.',
      severity: 'error',
      from: {path: '^chains/', pathNot: `${tests}|${clients}`},
      to: {path: '^(node:)?(net|tls|https?|http2|dgram|dns)$|^node_modules/(undici|ws|pg|electrum-client|@subsquid)/'},
    },
    {name: 'no-cycles', severity: 'error', from: {}, to: {circular: true}},
    {name: 'no-unresolved', severity: 'error', from: {}, to: {couldNotResolve: true}},
  ],
  options: {
    doNotFollow: {path: 'node_modules'},
    exclude: {path: '^(\\.sluice|test/made-up-family)/'},
    preserveSymlinks: true, // node_modules may be one
    tsPreCompilationDeps: true,
    tsConfig: {fileName: 'tsconfig.json'},
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
}
