// A reporter for vitest: the ten files whose tests took longest, after a run of more.
import type {Reporter, TestModule} from 'vitest/node'

const shown = 10

export default class SlowestFiles implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    if (modules.length <= shown) return
    const times = modules.map(module => [module.diagnostic().duration / 1000, module.relativeModuleId] as const)
    const slowest = times.toSorted(([a], [b]) => b - a).slice(0, shown)
    console.log(
      `\nThe slowest files:\n${slowest.map(([s, name]) => `${s.toFixed(1).padStart(7)} s  ${name}`).join('\n')}`,
    )
  }
}
