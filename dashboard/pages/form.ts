// How the pages read requests and carry out forms. Promises: a form that is refused is shown again, with what was typed
// and why; a form that was sent before does nothing a second time; if the second factor has to be shown first, nothing
// that was typed is lost; a file has to be chosen again.
import type {FastifyReply, FastifyRequest} from 'fastify'
import {z} from 'zod'
import {html} from '../../base/html.ts'
import {whatIsWrong} from '../../base/wrong-value.ts'
import {isMainNetwork} from '../../chains/registry.ts'
import {notice} from '../components.ts'
import {type Person, page} from '../layout.ts'
import {doneAlready, refusalOf} from './app.ts'
import type {Me} from './data.ts'
import {type Fields, fieldsOf, sentence, urlOf, type View} from './view.ts'
import {alreadyDone} from './views/notices.ts'

export type Sent = string | FastifyReply

export const show = ({me}: FastifyRequest, view: View): string => page({...view, person: personOf(me)})

/** Whoever is signed in, for the frame. */
export const personOf = ({email, merchant_name, networks}: Me): Person => ({
  email,
  merchant: merchant_name,
  isTest: networks.length > 0 && !networks.some(isMainNetwork),
})

/**
 * A form that fills itself from the query: after the second factor was shown, or by a link that anybody may have made.
 */
export const showForm = (request: FastifyRequest, view: View): string =>
  show(
    request,
    Object.keys(fieldsOf(request.query)).length
      ? {
          ...view,
          body: html`${notice('This form is filled in already. Check every field before you send it.')}${view.body}`,
        }
      : view,
  )

/** The parameters of a path or query; 400 if they are none. */
export function read<Schema extends z.ZodType>(schema: Schema, from: unknown): z.infer<Schema> {
  const result = schema.safeParse(from, {error: whatIsWrong})
  if (result.success) return result.data
  throw Object.assign(new Error(sentenceOf(result.error)), {statusCode: 400})
}

export const id = z.object({id: z.string()})
/** Where a page of a list begins: behind a number, or, of deliveries, behind one of them. */
export const before = position(/^\d{1,39}$/)
export const beforeDelivery = position(/^dlv_[0-9a-f]{32}$/)

function position(form: RegExp) {
  return z.string().regex(form, 'there is no such page of this list').optional()
}

export const notFound = (what: string) => Object.assign(new Error(`there is no such ${what}`), {code: 'SL404'})

/** What a person typed cannot be used; the message says why. */
export class Refusal extends Error {
  override name = 'Refusal'
}

interface Form<Schema extends z.ZodRawShape> {
  /** Where the form is. It fills itself from its query. */
  url: string
  fields: Schema
  /** Carries it out. Returns the path to go to, or a page that is shown once. */
  act(values: z.infer<z.ZodObject<Schema & {request: z.ZodUUID}>>): Promise<string | View>
  /** The form again, with what was typed. */
  again(typed: Fields, error: string): View | Promise<View>
  /** Where to see what was done, if the form was sent before. */
  done: readonly [path: string, name: string]
}

/** Carries out the form that was sent. */
export async function submit<Schema extends z.ZodRawShape>(
  request: FastifyRequest,
  reply: FastifyReply,
  {url, fields, act, again, done}: Form<Schema>,
): Promise<Sent> {
  const {request: _, ...typed} = textsOf(request.body)
  request.formUrl = urlOf(url, typed)
  const refuse = async (view: View | Promise<View>) => {
    reply.code(422)
    return show(request, await view)
  }
  const result = z
    .object({...fields, request: z.uuid('this form cannot be read; please send it again')})
    .safeParse(request.body, {error: whatIsWrong})
  if (!result.success) return refuse(again(typed, sentenceOf(result.error)))
  try {
    const next = await act(result.data as Parameters<typeof act>[0])
    return typeof next === 'string' ? reply.code(303).header('location', next).send() : show(request, next)
  } catch (error) {
    const refusal = error instanceof Refusal ? error.message : refusalOf(error)
    if (refusal === undefined) throw error
    return refuse(refusal === doneAlready ? alreadyDone(doneAlready, done) : again(typed, refusal))
  }
}

/** What was typed, without files: a form that is shown again asks for these again. */
const textsOf = (body: unknown): Fields =>
  Object.fromEntries(Object.entries(fieldsOf(body)).filter(([, value]) => !Buffer.isBuffer(value)))

/** What people call a field, if it is not its name. */
const names: Record<string, string> = {
  q: 'the search',
  url: 'the URL',
  accent: 'the colour of buttons',
  site_url: 'the link to your site',
  help_url: 'the link to your help',
}

function sentenceOf({issues}: z.ZodError): string {
  const {path, message} = issues[0]!
  const field = String(path[0] ?? '')
  if (!/^(must|has|is) /.test(message)) return sentence(message)
  return sentence(`${names[field] ?? field.replaceAll('_', ' ')} ${message}`)
}
