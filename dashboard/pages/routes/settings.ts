// What the account decides for all of its people: the time zone of the pages.
import {z} from 'zod'
import type {App} from '../app.ts'
import {read, show, showForm, submit} from '../form.ts'
import {fieldsOf} from '../view.ts'
import {presentName, settingsPage, zones} from '../views/settings.ts'

const Query = z.object({saved: z.literal('time_zone').optional()})

export function settings(app: App): void {
  app.get('/settings', async request => {
    const {saved} = read(Query, request.query)
    const {saved: _, ...typed} = fieldsOf(request.query)
    const {time_zone} = request.me
    if (saved) return show(request, settingsPage(time_zone, {saved: `Times are shown in ${time_zone} now.`}))
    const page = settingsPage(time_zone, {typed})
    return Object.keys(typed).length ? showForm(request, page) : show(request, page)
  })
  app.post('/settings/time-zone', (request, reply) =>
    submit(request, reply, {
      url: '/settings',
      fields: {
        time_zone: z
          .string()
          .transform(presentName)
          .refine(zone => zones.includes(zone), 'must be one of the list'),
      },
      act: async ({request: form, time_zone}) => {
        await request.data.setTimeZone(form, time_zone)
        return '/settings?saved=time_zone'
      },
      again: (typed, error) => settingsPage(request.me.time_zone, {typed, error}),
      done: ['/settings', 'To the settings'],
    }),
  )
}
