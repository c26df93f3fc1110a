import {defineConfig} from 'vitest/config'

// Two suites. quick (npm test): everything that a change may break, within minutes. payouts (npm run test:payouts): payouts on a real chain
// with real processes, and each of their steps with a process that dies there, which takes longer. test/torture is neither: npm run torture.
const payouts = ['test/faults/payouts.test.ts', 'test/faults/crash-points.test.ts']
const never = ['node_modules/**', '.sluice/**']

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    testTimeout: 30_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
    projects: [
      {extends: true, test: {name: 'quick', include: ['**/*.test.ts'], exclude: [...never, ...payouts]}},
      {extends: true, test: {name: 'payouts', include: payouts, exclude: never}},
    ],
  },
})
