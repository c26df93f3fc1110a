import path from 'node:path'
import {defineConfig} from 'vitest/config'
import {BaseSequencer, type TestSpecification} from 'vitest/node'

// Two suites. quick (npm test): everything that a change may break, within minutes. faults (npm run test:faults): whole services, real chains and
// lying nodes, each step of a payout with a process that dies there, and what needs many processes or rows. test/torture is neither: npm run torture.
const faults = [
  'test/faults/**/*.test.ts',
  'test/conformance/**/*.test.ts',
  'test/start.test.ts',
  'test/demo.test.ts',
  'test/metrics.test.ts',
  'test/model.test.ts',
  'custody/cli.test.ts',
  'cli/export.test.ts',
  'cli/main.test.ts',
  'db/definitions.test.ts',
  'jobs/worker.test.ts',
  'cli/unattributed.test.ts',
  'jobs/webhooks/partitions.test.ts',
  'custody/lock.test.ts',
  'custody/main.test.ts',
  'custody/journal.test.ts',
  'db/second-payments.test.ts',
  'devnet/cli.test.ts',
  'indexers/evm/node-connection.test.ts',
  'devnet/*/devnet.test.ts',
]
const never = ['node_modules/**', '.sluice/**', 'test/made-up-family/**']

/** What takes more than ten seconds on two cores, the longest first. */
const slow = [
  'test/faults/cluster',
  'test/faults/geth',
  'test/conformance/conformance',
  'test/faults/bitcoin-payouts',
  'devnet/bitcoin/devnet',
  'test/start',
  'test/faults/payouts',
  'test/faults/restore',
  'test/faults/crash-points',
  'devnet/evm/devnet',
  'db/second-payments',
  'test/demo',
  'test/faults/following',
  'test/faults/payment-requests',
  'custody/journal',
  'test/faults/reindex',
  'test/faults/custody-lock',
  'test/faults/unattributed',
  'test/faults/node',
  'custody/main',
  'test/faults/containers',
  'test/faults/attacker',
  'test/faults/database-away',
  'test/faults/start-without-database',
  'test/faults/finality',
  'test/model',
  'indexers/follow',
  'cli/main',
  'custody/lock',
  'custody/cli',
  'cli/status',
  'indexers/bitcoin/electrum-source',
  'db/embedded',
  'db/outputs',
  'cli/payout',
  'chains/bitcoin/electrum',
  'indexers/evm/bloom',
  'db/definitions',
  'db/migrate',
  'jobs/worker',
  'db/derive-deposits',
].map(name => path.resolve(`${name}.test.ts`))

/** What takes longest begins first, so that the others end beside it. A fresh checkout knows no durations: vitest would go by the size of files. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({moduleId}: TestSpecification) => (slow.includes(moduleId) ? slow.indexOf(moduleId) : slow.length)
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
  }
}

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    testTimeout: 180_000,
    hookTimeout: 240_000,
    maxWorkers: 2,
    sequence: {sequencer: LongestFirst},
    projects: [
      {extends: true, test: {name: 'quick', include: ['**/*.test.ts'], exclude: [...never, ...faults]}},
      // These mostly wait, for conditions that have limits of their own: more of them run at once, and a test's own limit only ends what hangs.
      {
        extends: true,
        test: {
          name: 'faults',
          include: faults,
          exclude: never,
          maxWorkers: 3,
          sequence: {groupOrder: 1},
          testTimeout: 600_000,
          hookTimeout: 600_000,
        },
      },
    ],
  },
})
