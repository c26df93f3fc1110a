// How the merchant looks on the pages of its payment requests.
import type {FastifyRequest} from 'fastify'
import {z} from 'zod'
import {contrast, isColour} from '../../../base/colour.ts'
import type {App, Context} from '../app.ts'
import {notFound, Refusal, read, show, showForm, submit} from '../form.ts'
import {logoOf} from '../logo.ts'
import {type Fields, fieldsOf} from '../view.ts'
import {editPaymentPage, editSites, logoUrlOf, paymentPagePage, previewOf} from '../views/payment-page.ts'

/** Of a button against the page: WCAG 2.2, 1.4.11. */
const leastContrast = 3

const webUrl = z
  .string()
  .trim()
  .max(500)
  .refine(text => text === '' || (URL.canParse(text) && /^https:\/\/[^\s]+$/.test(text)), 'must begin with https://')
  .optional()
const colour = z
  .string()
  .trim()
  .toLowerCase()
  .refine(text => text === '' || isColour(text), 'must be a colour such as #0b5cad')
  .refine(
    text => !isColour(text) || contrast(text, '#ffffff') >= leastContrast,
    `must be darker: a button of this colour can hardly be seen on a white page (its contrast must be ${leastContrast} to 1)`,
  )
  .optional()

/** The sites of a text, one in each line, as browsers compare them (RFC 6454): an address of a page is its site. */
const sites = z
  .string()
  .max(5000)
  .transform(text => text.split(/\s+/).filter(line => line !== ''))
  .refine(
    lines => lines.every(line => originOf(line) !== undefined),
    'must be sites such as https://shop.example, one in each line; http is for localhost alone',
  )
  .transform(lines => [...new Set(lines.map(line => originOf(line)!))])
  .refine(origins => origins.length <= 20, 'must be at most 20')

function originOf(text: string): string | undefined {
  const url = URL.parse(text)
  if (url === null || url.username || url.password) return undefined
  const isOnThisMachine = url.protocol === 'http:' && ['localhost', '127.0.0.1'].includes(url.hostname)
  const isHost = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(url.hostname) // as app.payment_page_site has it
  return isHost && (url.protocol === 'https:' || isOnThisMachine) ? url.origin : undefined
}

export function paymentPage(app: App, {apiUrl}: Context): void {
  const edit = async ({data}: FastifyRequest, typed: Fields, error?: string) =>
    editPaymentPage(await data.brand(), typed, error)

  app.get('/settings/payment-page', async request => {
    const {saved} = read(z.object({saved: z.literal('yes').optional()}), request.query)
    const brand = await request.data.brand()
    return show(request, paymentPagePage({brand, merchant: request.me.merchant_name, apiUrl, isSaved: saved === 'yes'}))
  })
  app.get('/settings/payment-page/edit', async request => {
    await request.data.requireFullRights()
    return showForm(request, await edit(request, fieldsOf(request.query)))
  })
  app.get('/settings/payment-page/sites', async request => {
    await request.data.requireFullRights()
    return showForm(request, editSites((await request.data.brand()).sites, fieldsOf(request.query)))
  })
  app.post('/settings/payment-page/sites', (request, reply) =>
    submit(request, reply, {
      url: '/settings/payment-page/sites',
      fields: {sites},
      act: async ({request: form, sites: origins}) => {
        await request.data.setPaymentPageSites(form, origins)
        return '/settings/payment-page?saved=yes'
      },
      again: async (typed, error) => editSites((await request.data.brand()).sites, typed, error),
      done: ['/settings/payment-page', 'To the payment page'],
    }),
  )
  app.get('/settings/payment-page/logo.png', async (request, reply) => {
    const logo = await request.data.logo()
    if (!logo) throw notFound('logo')
    return reply.type('image/png').send(logo)
  })
  app.post('/settings/payment-page', (request, reply) =>
    submit(request, reply, {
      url: '/settings/payment-page/edit',
      fields: {
        name: z.string().trim().max(60).optional(),
        accent: colour,
        site_url: webUrl,
        help_url: webUrl,
        logo: z.instanceof(Buffer, {error: 'must be a file'}).optional(),
        no_logo: z.literal('1').optional(),
        preview: z.literal('1').optional(),
      },
      act: async ({request: form, name, accent, site_url, help_url, logo, no_logo, preview}) => {
        const texts = {
          name: name || null,
          accent: accent || null,
          site_url: site_url || null,
          help_url: help_url || null,
        }
        if (logo && no_logo) throw new Refusal('Choose a logo, or none, but not both.')
        await request.data.requireFullRights() // before anything is decoded
        const made = no_logo ? null : logo && (await logoOf(logo))
        if (preview) {
          const brand = await request.data.brand()
          const shown = {...brand, ...texts, name: texts.name ?? request.me.merchant_name}
          const typed = {edited: '1', name, accent, site_url, help_url, no_logo}
          return editPaymentPage(brand, typed, undefined, previewOf(shown, logoUrlOf(brand, made)))
        }
        await request.data.setBrand(form, texts, made)
        return '/settings/payment-page?saved=yes'
      },
      again: (typed, error) => edit(request, typed, error),
      done: ['/settings/payment-page', 'To the payment page'],
    }),
  )
}
