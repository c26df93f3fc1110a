// The documentation for people: one self-contained page of the guides and the reference. Promises: the browser loads
// nothing from other servers; without JavaScript everything but the search works. Where the operator allows it
// (DOCS_TRY), it sends requests to this server, with a key that stays in the page's memory.
import {readFileSync} from 'node:fs'
import {escaped} from '../../base/html.ts'
import type {App, Context} from '../app.ts'
import {documentOf} from '../openapi.ts'
import type {OpenApi} from '../openapi-document.ts'
import {designTokens, pageHeaders, securityPolicy} from '../page-headers.ts'
import {guides} from './guides.ts'
import {introduction, referenceOf} from './reference.ts'
import type {Section} from './section.ts'

const read = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8')
const style = designTokens + read('style.css')
const script = read('browser.js')

export function docs(app: App, {docsTry}: Context): void {
  let json: string | undefined
  let html: string | undefined
  const options = {config: {open: true}, schema: {hide: true}}
  const more = ['img-src data:', ...(docsTry ? ["connect-src 'self'"] : [])]
  const headers = pageHeaders(securityPolicy({style, script, more}))

  app.get('/openapi.json', options, async () => {
    json ??= JSON.stringify(documentOf(app))
    return json
  })
  app.get('/docs', options, async (_request, reply) => {
    html ??= pageOf(documentOf(app), docsTry)
    reply.headers({...headers, 'content-type': 'text/html; charset=utf-8'})
    return html
  })
}

function pageOf(document: OpenApi, docsTry: boolean): string {
  const {title, version} = document.info
  const reference = {title: 'Reference', html: introduction(document), entries: []}
  const sections = [...guides(), reference, ...referenceOf(document, docsTry)]
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><title>${escaped(title)}</title><style>${style}</style></head><body>
<nav aria-label="Contents">${docsTry ? keyField : ''}<input type="search" placeholder="Search" aria-label="Search">${sections.map(contentsOf).join('')}</nav>
<main><h1>${escaped(title)}</h1><p class="soft">Version ${escaped(version)} · <a href="openapi.json">OpenAPI 3.1 document</a></p>
${sections.map(sectionOf).join('')}</main><script>${script}</script></body></html>`
}

const keyField = `<label>API key <input type="password" id="key" autocomplete="off" placeholder="sk_…"></label>
<p class="soft">For “Try it” below. It stays in this page's memory: leave the page, and it is gone.</p>`

function contentsOf({title, entries}: Section): string {
  if (!entries.length) return ''
  const links = entries.map(
    ({id, title, text}) => `<a href="#${id}" data-text="${escaped(text)}">${escaped(title)}</a>`,
  )
  return `<div data-group><h2>${escaped(title)}</h2>${links.join('')}</div>`
}

const sectionOf = ({title, html}: Section) => `<section><h2>${escaped(title)}</h2>${html}</section>`
