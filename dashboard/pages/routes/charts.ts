// Charts: read only.
import {z} from 'zod'
import type {App, Context} from '../app.ts'
import {chainsOf} from '../chains.ts'
import {read, show} from '../form.ts'
import {chartPeriods, chartSeries, chartsPage} from '../views/charts.ts'

const Query = z.object({
  days: z.coerce
    .number()
    .pipe(z.literal([...chartPeriods]))
    .default(30),
})

export function charts(app: App, context: Context): void {
  const chains = chainsOf(context)
  app.get('/charts', async request => {
    const {days} = read(Query, request.query)
    const {data} = request
    const [found, endpoints] = await Promise.all([data.charts(chartSeries, days), data.endpoints()])
    return show(request, chartsPage({charts: found, days, endpoints, chains}))
  })
}
