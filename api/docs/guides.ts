// The guides for merchants, from the repository's docs: the same text for readers of both.
import {readFileSync} from 'node:fs'
import {Marked} from 'marked'
import {escaped} from '../../base/html.ts'
import type {Section} from './section.ts'

const files = ['api.md', 'payment-requests.md', 'migrating.md']

const read = (file: string) => readFileSync(new URL(`../../docs/${file}`, import.meta.url), 'utf8')

/** The id of a heading on this page, for an anchor as in the repository. */
const idOf = (file: string, anchor: string) => `${file.replace(/\.md$/, '')}${anchor && `-${anchor}`}`

/** As GitHub makes anchors of headings. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} -]/gu, '')
    .replaceAll(' ', '-')

export const guides = (): Section[] => files.map(guideOf)

function guideOf(file: string): Section {
  const entries: Section['entries'] = []
  let title = ''
  const marked = new Marked({
    renderer: {
      heading({tokens, depth, text}) {
        const html = this.parser.parseInline(tokens)
        if (depth === 1) {
          title = text
          return ''
        }
        const id = idOf(file, anchorOf(text))
        if (depth === 2) entries.push({id, title: text, text: text.toLowerCase()})
        return `<h${depth + 1} id="${id}">${html}</h${depth + 1}>`
      },
      link({href, tokens}) {
        const text = this.parser.parseInline(tokens)
        const target = linkFrom(file, href)
        return target ? `<a href="${escaped(target)}">${text}</a>` : text
      },
      code: ({text}) => `<pre tabindex="0">${escaped(text)}</pre>`,
    },
  })
  const html = marked.parse(read(file), {async: false}).replace(emptyHead, '').replaceAll('<th></th>', '<td></td>')
  return {title, html: `<div id="${idOf(file, '')}">${html}</div>`, entries}
}

/** The head of a table without headings. */
const emptyHead = /<thead>\s*<tr>(\s*<th><\/th>)+\s*<\/tr>\s*<\/thead>/g

/** Where a link of a guide leads to on this page; undefined for documents that are not on it. */
function linkFrom(file: string, href: string): string | undefined {
  if (/^https:/.test(href)) return href
  const [name, anchor = ''] = href.split('#') as [string, string?]
  const target = name || file
  return files.includes(target) ? `#${idOf(target, anchor)}` : undefined
}
