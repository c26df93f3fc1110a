import {defineConfig} from 'vitest/config'
import {BaseSequencer, type TestSpecification} from 'vitest/node'

// Two suites. quick (npm test): everything that a change may break, within minutes. faults (npm run test:faults): whole services, real chains and
// lying nodes, each step of a payout with a process that dies there, and what needs many processes or rows. test/torture is neither: npm run torture.
const faults = [
  'test/faults/**/*.test.ts',
  'test/conformance/**/*.test.ts',
  'test/start.test.ts',
  'test/metrics.test.ts',
  'cli/export.test.ts',
  'cli/unattributed.test.ts',
  'jobs/webhooks/partitions.test.ts',
  'custody/main.test.ts',
  'custody/journal.test.ts',
  'devnet/cli.test.ts',
  'devnet/*/devnet.test.ts',
]
const never = ['node_modules/**', '.sluice/**']

/** What takes longest begins first, so that the others end beside it. A fresh checkout knows no durations, and goes by the size of files. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({moduleId}: TestSpecification) => /test\/(conformance|faults\/restore)/.test(moduleId)
    const sorted = await super.sort(files)
    return [...sorted.filter(isLong), ...sorted.filter(file => !isLong(file))]
  }
}

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    testTimeout: 60_000,
    hookTimeout: 120_000,
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
          maxWorkers: 4,
          sequence: {groupOrder: 1},
          testTimeout: 120_000,
          hookTimeout: 240_000,
        },
      },
    ],
  },
})
