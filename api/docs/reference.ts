// The reference: each operation with its parameters, body, replies, and samples in curl and TypeScript; and the
// webhooks. Made from the OpenAPI document.
import {escaped} from '../../base/html.ts'
import {type OpenApi, type Operation, resolve, responseOf, type Schema} from '../openapi-document.ts'
import type {Section} from './section.ts'

/** The little Markdown that the descriptions use: paragraphs, **bold**, `code`. */
function prose(text = ''): string {
  const inline = (paragraph: string) =>
    escaped(paragraph)
      .replace(/`([^`]+)`/g, '<code>$1</code>')
      .replace(/\*\*([^*]+)\*\*/g, '<strong>$1</strong>')
  return text
    .split('\n\n')
    .map(paragraph => `<p>${inline(paragraph)}</p>`)
    .join('')
}
const phrase = (text?: string) => prose(text).slice(3, -4)

interface Part {
  id: string
  title: string
  method: string
  path: string
  operation: Operation
}

/** A section for each tag. */
export function referenceOf(document: OpenApi, docsTry: boolean): Section[] {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => part(method.toUpperCase(), path, operation)),
  )
  const sent = Object.entries(document.webhooks).map(([type, {post}]) => part('POST', 'your endpoint', post, type))
  return document.tags.map(({name, description}) => {
    const parts = [...operations, ...sent].filter(({operation}) => operation.tags?.includes(name))
    return {
      title: name,
      html: `${prose(description)}${parts.map(shown => article(document, shown, docsTry)).join('')}`,
      entries: parts.map(shown => ({id: shown.id, title: shown.title, text: searchText(shown)})),
    }
  })
}

export const introduction = (document: OpenApi) => prose(document.info.description)

function part(method: string, path: string, operation: Operation, title = operation.summary ?? path): Part {
  return {id: `${method}-${title}`.toLowerCase().replace(/[^a-z0-9]+/g, '-'), title, method, path, operation}
}

/** The text that the search matches. */
function searchText({title, method, path, operation}: Part): string {
  return [method, path, title, operation.description ?? ''].join(' ').toLowerCase()
}

function article(document: OpenApi, shown: Part, docsTry: boolean): string {
  const {parameters = [], requestBody, responses, description} = shown.operation
  const body = requestBody?.content['application/json']
  const rows = parameters.map(({name, in: place, required, description, schema}) =>
    row(name, required ?? false, {...schema, description}, place),
  )
  const sent = body ? fields(document, body.schema) : []
  const replies = Object.entries(responses).map(([status, reply]) => response(document, status, reply))
  return `<article id="${shown.id}" data-text="${escaped(searchText(shown))}"><h3>${escaped(shown.title)}</h3>
<p><span class="method">${shown.method}</span> <code class="path">${escaped(shown.path)}</code></p>${description ? prose(description) : ''}
${table('Parameters', rows)}${table('Body', sent)}${request(shown)}${docsTry && shown.path.startsWith('/') ? attempt(shown) : ''}${replies.join('')}</article>`
}

/** How to ask, as a command and in TypeScript; for webhooks, what is posted. */
function request({method, path, operation}: Part): string {
  const json = operation.requestBody?.content['application/json']?.example
  if (!path.startsWith('/')) return json === undefined ? '' : example({example: json})
  const filled = path.replace(/{(\w+)}/g, (_match, name) =>
    String(operation.parameters?.find(parameter => parameter.name === name)?.example),
  )
  const reply: Asked['reply'] = operation.responses['204'] ? 'none' : path.endsWith('.svg') ? 'text' : 'json'
  const asked = {method, path: filled, needsKey: operation.security === undefined, json, reply}
  return `<h4>Example</h4><pre tabindex="0">${escaped(curlFor(asked))}</pre><details><summary>In TypeScript</summary><pre tabindex="0">${escaped(typeScriptFor(asked))}</pre></details>`
}

/** A form that the script of the page sends. */
function attempt({method, path, operation}: Part): string {
  const field = ({name, in: place, required}: NonNullable<Operation['parameters']>[number]) =>
    `<label>${escaped(name)} <input name="${escaped(name)}" data-in="${place}"${required ? ' required' : ''} autocomplete="off"></label>`
  const json = operation.requestBody?.content['application/json']?.example
  const body =
    json === undefined
      ? ''
      : `<label>Body <textarea name="body" rows="4" spellcheck="false">${escaped(JSON.stringify(json, null, 2))}</textarea></label>`
  return `<details class="try"><summary>Try it</summary><form data-method="${method}" data-path="${escaped(path)}">${(operation.parameters ?? []).map(field).join('')}${body}
<button>Send</button><pre role="status" tabindex="0" hidden></pre></form></details>`
}

interface Asked {
  method: string
  path: string
  needsKey: boolean
  json: unknown
  reply: 'json' | 'text' | 'none'
}

function curlFor({method, path, needsKey, json}: Asked): string {
  const key = needsKey ? ` \\\n  -H "Authorization: Bearer $SLUICE_API_KEY"` : ''
  const data = json === undefined ? '' : ` \\\n  -H 'Content-Type: application/json' -d '${JSON.stringify(json)}'`
  const verb = method === 'GET' || (method === 'POST' && data) ? '' : ` -X ${method}`
  return `curl${verb} "$SLUICE_URL${path}"${key}${data}`
}

function typeScriptFor({method, path, needsKey, json, reply}: Asked): string {
  const headers = [
    ...(needsKey ? ["Authorization: 'Bearer ' + process.env.SLUICE_API_KEY"] : []),
    ...(json === undefined ? [] : ["'Content-Type': 'application/json'"]),
  ]
  const options = [
    ...(method === 'GET' ? [] : [`method: '${method}'`]),
    ...(headers.length ? [`headers: {${headers.join(', ')}}`] : []),
    ...(json === undefined ? [] : [`body: JSON.stringify(${JSON.stringify(json)})`]),
  ]
  const second = options.length ? `, {\n${options.map(option => `  ${option},\n`).join('')}}` : ''
  return `const response = await fetch(process.env.SLUICE_URL + '${path}'${second})
if (!response.ok) throw new Error((await response.json()).error)${reply === 'none' ? '' : `\nconst reply = await response.${reply}()`}`
}

function response(document: OpenApi, status: string, given: Operation['responses'][string]): string {
  const {description, content} = responseOf(document, given)
  const json = content?.['application/json']
  const title = `<h4>${escaped(status)} <span class="soft">${phrase(description)}</span></h4>`
  if (!json || status >= '4') return title
  return `${title}${table('', fields(document, json.schema))}${example(json)}`
}

function table(title: string, rows: string[]): string {
  if (rows.length === 0) return ''
  return `${title && `<h4>${title}</h4>`}<table>${rows.join('')}</table>`
}

function row(name: string, required: boolean, schema: Schema, place?: string): string {
  const facts = [place, typeOf(schema), required ? '' : 'optional'].filter(Boolean).join(', ')
  return `<tr><td><code>${escaped(name)}</code></td><td class="soft">${escaped(facts)}</td><td>${schema.description ? phrase(schema.description) : ''}</td></tr>`
}

/** One row per field, those of nested objects below them as a.b and a[].b. */
function fields(document: OpenApi, schema: Schema, prefix = ''): string[] {
  const target = resolve(document, schema)
  if (target.items) return fields(document, target.items, `${prefix}[]`)
  const options = target.anyOf ?? target.oneOf
  if (options) {
    const objects = options.filter(option => resolve(document, option).properties)
    return objects.flatMap(option => fields(document, option, prefix))
  }
  return Object.entries(target.properties ?? {}).flatMap(([name, field]) => {
    const path = prefix ? `${prefix}.${name}` : name
    const own = {...resolve(document, field), ...field}
    return [row(path, target.required?.includes(name) ?? false, own), ...fields(document, field, path)]
  })
}

function typeOf(schema: Schema): string {
  const {
    type,
    const: constant,
    enum: values,
    items,
    anyOf,
    format,
    minimum,
    maximum,
    maxLength,
    default: standard,
  } = schema
  const base =
    constant?.toString() ??
    values?.join(' | ') ??
    (anyOf ? [...new Set(anyOf.map(typeOf))].join(' | ') : [type ?? 'object'].flat().join(' | '))
  const bounds = minimum !== undefined && maximum !== undefined ? ` ${minimum}-${maximum}` : ''
  const notes = [
    format,
    maxLength && `at most ${maxLength} characters`,
    standard !== undefined && `default ${standard}`,
  ]
  const list = items?.enum ? ` of ${items.enum.join(' | ')}` : ''
  return [base + list + bounds, ...notes.filter(Boolean)].join(', ')
}

function example({example}: {example?: unknown}): string {
  return `<pre tabindex="0">${escaped(JSON.stringify(example, null, 2))}</pre>`
}
