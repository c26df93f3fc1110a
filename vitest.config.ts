import {defineConfig} from 'vitest/config'

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
  'devnet/devnet.test.ts',
  'devnet/bitcoin/devnet.test.ts',
]
const never = ['node_modules/**', '.sluice/**']

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    testTimeout: 30_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
    projects: [
      {extends: true, test: {name: 'quick', include: ['**/*.test.ts'], exclude: [...never, ...faults]}},
      {extends: true, test: {name: 'faults', include: faults, exclude: never}},
    ],
  },
})
