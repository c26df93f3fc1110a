// What the API's pages for people share. Promises: a page runs and loads nothing that it was not made with.
import {createHash} from 'node:crypto'
import {readFileSync} from 'node:fs'

/** Type, colour, space and radius, which the dashboard has, too. */
export const designTokens = readFileSync(new URL('../base/design-tokens.css', import.meta.url), 'utf8')

interface Policy {
  style: string
  script?: string
  /** It loads a style sheet of ours, too. */
  hasSheet?: boolean
  more?: string[]
  /** The origins that may show it in a frame. */
  sites?: string[]
}

/** The Content-Security-Policy of a page with one style and one script in it, and the other sources that it names. */
export function securityPolicy({style, script, hasSheet, more = [], sites = []}: Policy): string {
  const rules = [
    "default-src 'none'",
    `style-src ${sourceOf(style)}${hasSheet ? " 'self'" : ''}`,
    ...(script ? [`script-src ${sourceOf(script)}`] : []),
    ...more,
    "base-uri 'none'",
    "form-action 'none'",
    `frame-ancestors ${sites.join(' ') || "'none'"}`,
  ]
  return rules.join('; ')
}

/** The headers of a page: browsers and search engines store nothing of it, and send its URL to no other site. */
export function pageHeaders(contentSecurityPolicy: string) {
  return {
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-robots-tag': 'noindex',
    'content-security-policy': contentSecurityPolicy,
  }
}

const sourceOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`
