// The frame of every page, of both processes. Promises: no inline code and nothing from elsewhere, so the strictest
// Content-Security-Policy holds; a page works without JavaScript: the menus of narrow pages are popovers, which need
// none.

import {type Html, html, type Part} from '../base/html.ts'
import {apiDocs, signOut} from './components.ts'

/** Whoever is signed in, for the frame. */
export interface Person {
  email: string
  merchant: string
  /** The coins of all networks are worth nothing. Absent where the page shows no money. */
  isTest?: boolean
}

export interface PageOptions {
  title: string
  body: Part
  /** Absent on pages of people who are not signed in. */
  person?: Person
  /** The path of the entry in the navigation that the page belongs to. */
  section?: string
  /** What it is a page of: a link above the title. */
  parent?: readonly [path: string, name: string]
  /** Beside the title. */
  actions?: Part
  /** Below the title. */
  lead?: Part
  /** Parts of the page are live: it listens for news. */
  isLive?: boolean
}

const sections = [
  ['/', 'Overview'],
  ['/deposits', 'Deposits'],
  ['/users', 'Users'],
  ['/payment-requests', 'Payment requests'],
  ['/payouts', 'Payouts'],
  ['/payout-addresses', 'Payout addresses'],
  ['/statements', 'Statements'],
  ['/charts', 'Charts'],
  ['/api-keys', 'API keys'],
  ['/webhooks', 'Webhooks'],
  ['/audit-log', 'Audit log'],
  ['/settings', 'Settings'],
] as const

// A part that failed is not shown: the one before it stays.
const htmxConfig = '{"includeIndicatorCSS":false,"history":false,"noSwap":[204,304,"4xx","5xx"]}'

/** A whole document. */
export function page({title, body, person, section, parent, actions, lead, isLive = false}: PageOptions): string {
  return html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${title} · Sluice</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">
<meta name="htmx-config" content="${htmxConfig}">
<link rel="icon" href="data:,"><link rel="stylesheet" href="/static/tokens.css"><link rel="stylesheet" href="/static/dashboard.css">
<script src="/static/htmx.js" defer></script><script src="/static/browser.js" type="module"></script></head>
<body${person ? '' : html` class="alone"`}${isLive ? html` data-live` : ''}><a class="skip" href="#main">Skip to content</a>
${person ? navigationOf(person, section) : html`<header><span class="brand">${mark}Sluice</span></header>`}
<main id="main" tabindex="-1">${person?.isTest && html`<p class="test-network">Test network: the coins here are worth nothing</p>`}${parent && html`<a class="parent" href="${parent[0]}">${parent[1]}</a>`}
<div class="title"><h1>${title}</h1>${actions && html`<div class="actions">${actions}</div>`}</div>${lead && html`<p class="lead">${lead}</p>`}
${body}</main><p id="said" role="status" class="unseen"></p></body></html>`.text
}

/** Two gates, one of them open. */
const mark = html`<svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true"><rect width="24" height="24" rx="6" fill="currentColor"/><path d="M8 5v14M16 5v6" class="gate"/><path d="M10.5 15.5c1.2-1.6 2.6-1.6 3.8 0s2.6 1.6 3.7 0" class="gate"/></svg>`

function navigationOf({email, merchant}: Person, section?: string): Html {
  const current = (to: string) => to === section && html` aria-current="page"`
  return html`<header><a class="brand" href="/">${mark}Sluice</a>
<form class="search" role="search" method="get" action="/search"><input type="search" name="q" required aria-label="Search by txid, address, sender, amount, reference or id" placeholder="Txid, address, sender, amount, reference or id"></form>
<a class="bar search-link" href="/search"${current('/search')}>Search</a>
<button type="button" class="bar" popovertarget="account"><span class="name">${merchant}</span></button>
<button type="button" class="bar menu" popovertarget="pages">Menu</button></header>
<nav id="pages" popover aria-label="Pages">${sections.map(([to, name]) => html`<a href="${to}"${current(to)}>${name}</a>`)}${apiDocs('API reference')}</nav>
<div id="account" popover role="region" aria-label="Account"><p><strong>${merchant}</strong><br><span class="soft">${email}</span></p>
<a href="/security"${current('/security')}>Security and sessions</a>${signOut}</div>
`
}
