// The page on which a customer pays, as HTML. Promises: without JavaScript it shows the same and reloads itself; it
// loads nothing from other servers; a merchant's name is always shown as text, and does not change the text around it.
import {readFileSync} from 'node:fs'
import {textOn} from '../../base/colour.ts'
import {escaped} from '../../base/html.ts'
import {type ChainSettings, familyOf} from '../../chains/families.ts'
import {designTokens, securityPolicy} from '../page-headers.ts'
import type {Payment} from './payment.ts'
import type {Shown} from './shown.ts'

const read = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8')
const style = designTokens + read('style.css')
const script = read('browser.js')

const secondsBetweenReloads = 15

export const policy = securityPolicy({
  style,
  script,
  hasSheet: true,
  more: ["img-src 'self' data:", "connect-src 'self'"],
})

export function pageOf(pageToken: string, payment: Payment, shown: Shown, settings: ChainSettings): string {
  const {amount, token, address, merchant_name, display_name, external_id, return_url, brand} = payment
  const isFinal = shown.poll_seconds === null
  const isAddress = shown.code === address
  const body = `<main data-token="${escaped(pageToken)}" data-shown="${escaped(JSON.stringify(shown))}">
${
  brand.has_logo
    ? `<img class="logo" src="${escaped(pageToken)}/logo.png" alt="">
`
    : ''
}<p class="soft">Payment to <bdi>${escaped(merchant_name)}</bdi>, reference <bdi>${escaped(external_id)}</bdi></p>
<h1>${escaped(amount)} ${escaped(token)}</h1>
<p class="soft">${escaped(display_name)} on ${escaped(networkOf(settings))}</p>
<div id="live" data-state="${shown.state}" role="status" aria-live="polite" aria-atomic="true"><h2 id="heading">${escaped(shown.heading)}</h2><p id="text">${escaped(shown.text)}</p></div>
<p id="notice" role="alert" hidden></p>
<section id="due" aria-label="How to pay"${hiddenUnless(shown.due !== null)}>
<p>Pay before <time datetime="${payment.expires_at}">${utc(payment.expires_at)}</time><span id="left" hidden>; time left: <span id="clock" role="timer"></span></span></p>
<dl><dt>Amount to send</dt><dd><code><span id="amount">${escaped(shown.due ?? '')}</span> ${escaped(token)}</code><button type="button" data-copies="amount" hidden>Copy amount</button></dd>
<dt>Address</dt><dd><code id="address">${escaped(address)}</code><button type="button" data-copies="address" hidden>Copy address</button></dd></dl>
<p id="only"><strong>Only ${escaped(token)} on ${escaped(networkOf(settings))} counts.</strong> Anything else that is sent to this address does not pay this request, and may be lost: ask the merchant.</p>
<img id="code"${shown.due === null ? '' : ` src="${escaped(pageToken)}/qr.svg"`} alt="${isAddress ? 'QR code of the address' : 'QR code for wallets, with the address and the amount'}" width="288" height="288">
<p id="note" class="soft"${hiddenUnless(isAddress)}>The code holds the address alone: enter the amount yourself.</p>
<a id="wallet" class="button" href="${escaped(shown.uri ?? '')}"${hiddenUnless(!isAddress)}>Open in wallet</a>
<details id="choice"${hiddenUnless(isAddress && shown.uri !== address)}><summary>A code with the amount, for wallets that read payment links</summary>
<p>Some wallets read such a code wrongly. Before you send, check that yours shows the amount and the address above.</p>
<img id="link"${shown.due === null ? '' : ` src="${escaped(pageToken)}/qr.svg?content=payment_uri" loading="lazy"`} alt="QR code of the payment link" width="288" height="288"></details>
</section>
<p id="copied" role="status"></p>
<p id="transaction" class="soft"${hiddenUnless(shown.txid !== null)}>Transaction <a id="txid"${shown.transaction_url === null ? '' : ` href="${escaped(shown.transaction_url)}"`} rel="noreferrer" title="${escaped(shown.txid ?? '')}">${escaped(shown.transaction ?? '')}</a> <button type="button" data-copies="txid" hidden>Copy transaction</button></p>
${return_url === null ? '' : `<p><a href="${escaped(return_url)}" rel="noreferrer">Back to <bdi>${escaped(merchant_name)}</bdi></a></p>\n`}${linksOf(payment)}</main><script>${script}</script>`
  const sheet = brand.accent === null ? '' : `<link rel="stylesheet" href="${escaped(pageToken)}/brand.css">`
  return documentOf(`${shown.heading}: ${amount} ${token}`, body, {sheet, reload: isFinal ? '' : noscriptReload})
}

/** The style sheet of a merchant's colour. It is behind text only where black or white reads well on it: on buttons. */
export const brandSheet = (accent: string): string =>
  `.button{background:${accent};border-color:${accent};color:${textOn(accent)}}`

/** Where a customer finds the merchant. */
function linksOf({merchant_name, brand}: Payment): string {
  const links = [
    [brand.site_url, `<bdi>${escaped(merchant_name)}</bdi>`],
    [brand.help_url, 'Help'],
  ].flatMap(([url, name]) => (url ? [`<a href="${escaped(url)}" rel="noreferrer">${name}</a>`] : []))
  return links.length ? `<p class="soft">${links.join(' · ')}</p>\n` : ''
}

/** What is shown if the page cannot be. */
export function refusalOf(status: number, message: string): string {
  if (status === 404)
    return documentOf(
      'No such payment',
      '<main><h1>There is no payment here</h1><p>Please check the link, or ask the merchant for it again.</p></main>',
    )
  return documentOf(
    'Please wait',
    `<main><h1>This page cannot be shown at the moment</h1><p>It tries again automatically. A payment that you have sent counts in any case.</p><p class="soft">${escaped(message)}</p></main>`,
    {reload},
  )
}

const reload = `<meta http-equiv="refresh" content="${secondsBetweenReloads}">`
const noscriptReload = `<noscript>${reload}</noscript>`

const hiddenUnless = (shown: boolean) => (shown ? '' : ' hidden')

/** 2026-11-22T21:59:07.000Z as 2026-11-22 21:59 UTC. */
const utc = (iso: string) => `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`

/** Names the network: several networks have addresses of the same form. */
function networkOf(settings: ChainSettings): string {
  return `${settings.chain.displayName} (${familyOf(settings).networkName(settings)})`
}

function documentOf(title: string, body: string, {sheet = '', reload = ''} = {}): string {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex"><link rel="icon" href="data:,"><meta name="color-scheme" content="light dark">${reload}<title>${escaped(title)}</title><style>${style}</style>${sheet}</head><body>
${body}</body></html>`
}
