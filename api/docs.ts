// The documentation for people, one self-contained page made from the OpenAPI document. Promises: the browser loads nothing from
// other servers; without JavaScript everything but the search works.
import type {App} from './app.ts'
import {colors, escaped, pageHeaders, securityPolicy} from './html.ts'
import {documentOf} from './openapi.ts'
import {type OpenApi, type Operation, resolve, responseOf, type Schema} from './openapi-document.ts'

export function docs(app: App): void {
  let json: string | undefined
  let html: string | undefined
  const options = {config: {open: true}, schema: {hide: true}}

  app.get('/openapi.json', options, async () => {
    json ??= JSON.stringify(documentOf(app))
    return json
  })
  app.get('/docs', options, async (_request, reply) => {
    html ??= pageOf(documentOf(app))
    reply.headers({...pageHeaders(policy), 'content-type': 'text/html; charset=utf-8'})
    return html
  })
}

const style = `${colors}
*{box-sizing:border-box}html{scroll-behavior:smooth;scroll-padding-top:1rem}
body{margin:0;font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--back);display:grid;grid-template-columns:17rem minmax(0,1fr)}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1.2rem;border-right:1px solid var(--line);font-size:.9rem}
nav h2{font-size:.75rem;text-transform:uppercase;letter-spacing:.05em;color:var(--soft);margin:1.1rem 0 .3rem}
nav a{display:block;color:inherit;text-decoration:none;padding:.12rem 0}nav a:hover{color:var(--accent)}
input{width:100%;padding:.45rem .6rem;font:inherit;color:inherit;background:var(--tint);border:1px solid var(--line);border-radius:6px}
main{padding:2rem 3rem 6rem;max-width:62rem}h1{margin-top:0}main>section>h2{margin:3rem 0 .5rem;border-bottom:1px solid var(--line)}
article{margin:2rem 0;padding-top:.3rem}article h3{margin:.2rem 0;font-size:1.1rem}
code,pre{font:.86em/1.5 ui-monospace,monospace}code{background:var(--tint);padding:.1em .3em;border-radius:4px}
pre{background:var(--tint);border:1px solid var(--line);border-radius:6px;padding:.8rem 1rem;overflow:auto}
.method{font-weight:700;color:var(--accent)}.path{background:none;padding:0}.soft{color:var(--soft)}
table{border-collapse:collapse;width:100%;margin:.4rem 0 1rem;font-size:.92rem}td,th{text-align:left;vertical-align:top;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line)}
th{font-weight:600;color:var(--soft)}td:first-child{white-space:nowrap}h4{margin:1rem 0 .2rem;font-size:.9rem}[hidden]{display:none!important}
@media(max-width:50rem){body{display:block}nav{position:static;height:auto}main{padding:1rem}}`

const script = `
const search=document.querySelector('input'),parts=[...document.querySelectorAll('[data-text]')]
search.addEventListener('input',()=>{const words=search.value.toLowerCase().split(/\\s+/)
for(const part of parts)part.hidden=!words.every(word=>part.dataset.text.includes(word))
for(const group of document.querySelectorAll('[data-group]'))group.hidden=!group.querySelector('[data-text]:not([hidden])')})`

const policy = securityPolicy({style, script})

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

function pageOf(document: OpenApi): string {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => part(method.toUpperCase(), path, operation)),
  )
  const sent = Object.entries(document.webhooks).map(([type, {post}]) => part('POST', 'your endpoint', post, type))
  const groups = document.tags.map(tag => ({
    ...tag,
    parts: [...operations, ...sent].filter(({operation}) => operation.tags?.includes(tag.name)),
  }))
  const links = groups.map(
    ({name, parts}) => `<div data-group><h2>${escaped(name)}</h2>${parts.map(link).join('')}</div>`,
  )
  const sections = groups.map(
    ({name, description, parts}) =>
      `<section data-group><h2>${escaped(name)}</h2>${prose(description)}${parts.map(shown => article(document, shown)).join('')}</section>`,
  )
  const {title, version, description} = document.info
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escaped(title)}</title><style>${style}</style></head><body>
<nav><input type="search" placeholder="Search" aria-label="Search">${links.join('')}</nav>
<main><h1>${escaped(title)}</h1><p class="soft">Version ${escaped(version)} · <a href="openapi.json">OpenAPI 3.1 document</a></p>
${prose(description)}${sections.join('')}</main><script>${script}</script></body></html>`
}

function part(method: string, path: string, operation: Operation, title = operation.summary ?? path): Part {
  return {id: `${method}-${title}`.toLowerCase().replace(/[^a-z0-9]+/g, '-'), title, method, path, operation}
}

/** The text that the search matches. */
function searchText({title, method, path, operation}: Part): string {
  return escaped([method, path, title, operation.description ?? ''].join(' ').toLowerCase())
}

function link(shown: Part): string {
  return `<a href="#${shown.id}" data-text="${searchText(shown)}">${escaped(shown.title)}</a>`
}

function article(document: OpenApi, shown: Part): string {
  const {parameters = [], requestBody, responses, description} = shown.operation
  const body = requestBody?.content['application/json']
  const rows = parameters.map(({name, in: place, required, description, schema}) =>
    row(name, required ?? false, {...schema, description}, place),
  )
  const sent = body ? fields(document, body.schema) : []
  const replies = Object.entries(responses).map(([status, reply]) => response(document, status, reply))
  return `<article id="${shown.id}" data-text="${searchText(shown)}"><h3>${escaped(shown.title)}</h3>
<p><span class="method">${shown.method}</span> <code class="path">${escaped(shown.path)}</code></p>${description ? prose(description) : ''}
${table('Parameters', rows)}${table('Body', sent)}${request(shown)}${replies.join('')}</article>`
}

/** How to ask, as a command; for webhooks, what is posted. */
function request({method, path, operation}: Part): string {
  const body = operation.requestBody?.content['application/json']
  if (!path.startsWith('/')) return body ? example(body) : ''
  const filled = path.replace(/{(\w+)}/g, (_match, name) =>
    String(operation.parameters?.find(parameter => parameter.name === name)?.example),
  )
  const key = operation.security === undefined ? ` \\\n  -H "Authorization: Bearer $API_KEY"` : ''
  const json = body && JSON.stringify(body.example)
  const data = json ? ` \\\n  -H 'Content-Type: application/json' -d '${json}'` : ''
  const verb = method === 'GET' ? '' : ` -X ${method}`
  return `<h4>Example</h4><pre>${escaped(`curl${verb} "$BASE_URL${filled}"${key}${data}`)}</pre>`
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
  return `<pre>${escaped(JSON.stringify(example, null, 2))}</pre>`
}
