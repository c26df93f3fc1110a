// Payment requests: what may be missing of a new one.
import {z} from 'zod'
import {basisPoints} from '../../../base/percent.ts'
import type {App} from '../app.ts'
import {Refusal, read, show, showForm, submit} from '../form.ts'
import {fieldsOf} from '../view.ts'
import {paymentRequestsPage, tolerancePage} from '../views/payment-requests.ts'

export function paymentRequests(app: App): void {
  app.get('/payment-requests', async request => {
    const {saved} = read(z.object({saved: z.literal('tolerance').optional()}), request.query)
    return show(request, paymentRequestsPage(await request.data.paymentTolerance(), saved !== undefined))
  })
  app.get('/payment-requests/tolerance', async request => {
    await request.data.requireFullRights()
    return showForm(request, tolerancePage(await request.data.paymentTolerance(), fieldsOf(request.query)))
  })
  app.post('/payment-requests/tolerance', (request, reply) =>
    submit(request, reply, {
      url: '/payment-requests/tolerance',
      fields: {tolerance: z.string().trim().min(1, 'must not be empty').max(10)},
      act: async ({request: form, tolerance}) => {
        const bps = basisPoints(tolerance)
        if (bps === undefined)
          throw new Refusal('The tolerance must be a percentage with at most two decimals, such as 0.5')
        await request.data.setPaymentTolerance(form, bps)
        return '/payment-requests?saved=tolerance'
      },
      again: async (typed, error) => tolerancePage(await request.data.paymentTolerance(), typed, error),
      done: ['/payment-requests', 'To the payment requests'],
    }),
  )
}
