// The guides for merchants, from the repository's docs: the same text for readers of both. A list of links to samples
// shows the samples themselves, in tabs that need no script.
import {readFileSync} from 'node:fs'
import {Marked, type Tokens} from 'marked'
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
      list: list => samplesOf(list) ?? false,
    },
  })
  const html = marked.parse(read(file), {async: false}).replace(emptyHead, '').replaceAll('<th></th>', '<td></td>')
  return {title, html: `<div id="${idOf(file, '')}">${html}</div>`, entries}
}

/** The tabs of a list of samples; undefined for other lists. */
function samplesOf({items}: Tokens.List): string | undefined {
  const links = items.map(({text}) => /^\[(.+)\]\(\.\.\/(samples\/[\w./-]+)\)$/.exec(text))
  if (!links.every(link => link !== null)) return undefined
  const tabs = links.map(([, language, file], i) => {
    const code = escaped(readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8'))
    const tab = `<input type="radio" name="sample" id="sample-${i}"${i === 0 ? ' checked' : ''}>`
    return `${tab}<label for="sample-${i}">${escaped(language!)}</label><pre tabindex="0">${code}</pre>`
  })
  return `<div class="tabs" role="group" aria-label="Language">${tabs.join('')}</div>`
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
