import path from 'node:path'
import {defineConfig} from 'vitest/config'
import {BaseSequencer, type TestSpecification} from 'vitest/node'

// Three suites. quick (npm test): everything that a change may break, within minutes. faults (npm run test:faults):
// whole services, real chains and lying nodes, each step of a payout with a process that dies there, and what needs
// many processes or rows. long (npm run test:long), which CI leaves out: a cluster that fails over, containers of each
// kind, a real geth, every check of a node of Tron, payouts that expire while everything dies, sweeps with lent energy
// that die at each step, a restored backup (that from the words does more), nodes that refuse requests or are away at
// the first start (conformance has one of each), a made-up family of chains, and the tests of what tests run on.
const faults = [
  'test/faults/**/*.test.ts',
  'test/conformance/conformance.test.ts',
  'test/containers/containers.test.ts',
  'test/start.test.ts',
  'test/demo.test.ts',
  'test/metrics.test.ts',
  'test/model.test.ts',
  'test/torture.test.ts',
  'custody/cli.test.ts',
  'cli/export.test.ts',
  'cli/main.test.ts',
  'cli/payout.test.ts',
  'db/migrate/definitions.test.ts',
  'jobs/worker.test.ts',
  'cli/unattributed.test.ts',
  'api/operations.test.ts',
  'docker/compose.test.ts',
  'jobs/webhooks/partitions.test.ts',
  'custody/lock.test.ts',
  'custody/main.test.ts',
  'custody/journal/{journal,incomplete}.test.ts',
  'custody/second-reader.test.ts',
  'db/second-payments.test.ts',
  'devnet/cli.test.ts',
  'indexers/evm/node-connection.test.ts',
  'devnet/{solana,tron}/devnet.test.ts',
  'sdk/package.test.ts',
  'samples/samples.test.ts',
]
const long = [
  'test/long/**/*.test.ts',
  'test/containers/rest.test.ts',
  'test/conformance/made-up-family.test.ts',
  // of the tests' own tools
  'test/support/bitcoin/electrum-lies.test.ts',
  'devnet/{bitcoin,evm}/devnet.test.ts',
]
const never = ['node_modules/**', '.sluice/**', 'test/made-up-family/**', ...long]

/**
 * What takes more than ten seconds on two cores, the longest first; but what computes all the time is apart from each
 * other (conformance, torture, containers, the demo, start, the dashboard's look, custody's commands), because most of
 * the others wait.
 */
const slow = [
  'test/conformance/conformance',
  'test/faults/payouts',
  'test/faults/bitcoin-payouts',
  'test/faults/solana-tokens',
  'test/faults/tron-expiry',
  'test/torture',
  'test/faults/payment-requests',
  'test/faults/solana-payouts',
  'test/faults/funded-sweeps',
  'test/faults/waiting',
  'test/faults/crash-points',
  'test/containers/containers',
  'test/faults/frozen',
  'test/faults/held-up-payouts',
  'test/faults/added-tokens',
  'test/faults/tron-tokens',
  'test/faults/tron-payouts',
  'test/faults/forgotten-payouts',
  'test/faults/expiring-attacker',
  'test/demo',
  'cli/main',
  'db/second-payments',
  'test/start',
  'test/faults/unattributed',
  'test/faults/from-the-words',
  'test/faults/dashboard-look',
  'test/faults/held-back',
  'custody/cli',
  'custody/main',
  'test/faults/dashboard-pages',
  'test/model',
  'test/faults/custody-lock',
  'test/faults/node',
  'custody/journal/journal',
  'custody/second-reader',
  'custody/journal/incomplete',
  'test/faults/start-without-database',
  'test/faults/solana-node',
  'cli/payout',
  'docker/compose',
  'cli/export',
  'cli/unattributed',
  'test/faults/database-away',
  'test/faults/finality',
  'test/faults/payment-page',
  'test/faults/solana-treasury',
  'test/faults/reindex',
  'test/metrics',
  'test/faults/docs-page',
  'test/faults/tron-treasury',
  'jobs/worker',
  'test/faults/attacker',
  'test/faults/dump',
  'test/faults/dashboard-sign-in',
  'test/faults/confirmed-transactions',
  'devnet/cli',
  'db/migrate/definitions',
  'test/faults/metrics',
  'cli/status',
  'db/migrate/migrate',
  'indexers/tron/internal-transactions',
  'indexers/follow',
  'db/outputs',
  'api/operations',
  'jobs/webhooks/send',
].map(name => path.resolve(`${name}.test.ts`))

/**
 * What takes longest begins first, so that the others end beside it. A fresh checkout knows no durations: vitest would
 * go by the size of files.
 */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({moduleId}: TestSpecification) => (slow.includes(moduleId) ? slow.indexOf(moduleId) : slow.length)
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
  }
}

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    reporters: ['default', './test/support/slowest-files.ts'],
    testTimeout: 180_000,
    hookTimeout: 240_000,
    isolate: false, // a third of a second for each file: the modules stay loaded, and no test replaces one
    restoreMocks: true,
    unstubEnvs: true,
    maxWorkers: 4, // more than the cores of a small machine, because many tests wait
    sequence: {sequencer: LongestFirst},
    projects: [
      {extends: true, test: {name: 'quick', include: ['**/*.test.ts'], exclude: [...never, ...faults]}},
      // These mostly wait, for conditions that have limits of their own: a test's own limit only ends what hangs.
      {
        extends: true,
        test: {
          name: 'faults',
          include: faults,
          exclude: never,
          sequence: {groupOrder: 1},
          testTimeout: 600_000,
          hookTimeout: 600_000,
        },
      },
      {extends: true, test: {name: 'long', include: long, sequence: {groupOrder: 2}}},
    ],
  },
})
