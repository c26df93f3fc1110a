// The page on which a customer pays, as HTML. Promises: without JavaScript it shows the same and reloads itself; it
// loads nothing from other servers; a merchant's name is always shown as text, and does not change the text around it;
// only the sites that the merchant names show it in a frame.
import {readFileSync} from 'node:fs'
import {textOn} from '../../base/colour.ts'
import {type Html, html} from '../../base/html.ts'
import type {ChainSettings} from '../../chains/families.ts'
import {designTokens, securityPolicy} from '../page-headers.ts'
import type {Words} from './languages/en.ts'
import {copyPicture, mark, picture} from './marks.ts'
import {isSettled, isTest, msToFinal, networkOf, type Payment} from './payment.ts'
import type {ReceiptLine, Shown} from './shown.ts'
import {languageCodes, languages, type Voice} from './voice.ts'

const read = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8')
const style = designTokens + read('style.css')
const script = read('browser.js')

const secondsBetweenReloads = 15

/** `sites`: the origins that may show the page in a frame. */
export const policyFor = (sites: string[]) =>
  securityPolicy({style, script, hasSheet: true, sites, more: ["img-src 'self' data:", "connect-src 'self'"]})

export interface Page {
  /** The token of the page. */
  token: string
  payment: Payment
  shown: Shown
  settings: ChainSettings
  voice: Voice
}

export function pageOf({token, payment, shown, settings, voice}: Page): string {
  const {merchant_name, brand, amount, return_url} = payment
  const {say} = voice
  const back = return_url !== null && linkTo(return_url, say('back', {merchant: merchant_name}), {isBack: true})
  const body = html`<main data-token="${token}" data-language="${voice.language}" data-shown="${JSON.stringify(shown)}" data-words="${JSON.stringify(wordsOfScript(voice, networkOf(payment, settings)))}" data-sites="${JSON.stringify(brand.sites)}">
${isTest(payment.network) && html`<p class="test">${say('test_network')}</p>`}<header>${brand.has_logo && html`<img class="logo" src="${token}/logo.png" alt="">`}<div><p class="shop"><bdi>${merchant_name}</bdi></p><p class="soft"><bdi>${say('reference', {reference: payment.external_id})}</bdi> · <bdi dir="ltr">${amount} ${payment.token}</bdi></p></div>${languageSwitch(voice)}</header>
<div class="columns"><div>
${statusOf(shown, voice)}
${dueOf({token, payment, shown, settings, voice})}
${receiptOf(shown.receipt, voice)}
</div>
${howOf({token, payment, shown, settings, voice})}
<div class="last">
<p id="transaction" class="soft"${hiddenUnless(shown.txid !== null && shown.receipt === null)}>${say('transaction')} <a id="txid" dir="ltr"${shown.transaction_url !== null && html` href="${shown.transaction_url}"`} target="_blank" rel="noopener noreferrer" title="${shown.txid}">${shown.transaction}</a> ${copyButton('txid', say)}</p>
${nextOf({token, payment, shown, settings, voice})}
<p id="copied" role="status"></p>
${back && html`<p>${back}</p>`}${linksOf(payment, voice)}
</div></div></main><script>${inline(script)}</script>`
  return documentOf(`${shown.heading}: ${amount} ${payment.token}`, body, voice, {
    sheet: brand.accent === null ? undefined : html`<link rel="stylesheet" href="${token}/brand.css">`,
    reload: isSettled(payment) ? undefined : html`<noscript>${reload}</noscript>`,
  })
}

/** The style sheet of a merchant's colour. It is behind text only where black or white reads well on it: on buttons. */
export const brandSheet = (accent: string): string =>
  `.button{background:${accent};border-color:${accent};color:${textOn(accent)}}`

/** Of what is shown if the page cannot be: it has nothing to press, and a frame tries again by it. */
export const refusalPolicy = securityPolicy({style, sites: ['*']})

/** What is shown if the page cannot be. */
export function refusalOf(status: number, message: string, voice: Voice): string {
  const {say} = voice
  if (status === 404)
    return documentOf(
      say('no_payment'),
      html`<main><h1>${say('no_payment')}</h1><p>${say('no_payment_text')}</p></main>`,
      voice,
    )
  return documentOf(
    say('unavailable'),
    html`<main><h1>${say('unavailable')}</h1><p>${say('unavailable_text')}</p><p class="soft" lang="en" dir="ltr">${message}</p></main>`,
    voice,
    {reload},
  )
}

/** A picture and words; what changes in it is read aloud as a whole, and the clock beside it is not. */
function statusOf(shown: Shown, {say}: Voice): Html {
  return html`<div id="status" data-state="${shown.state}">${picture(shown.time_left ?? 0)}<div><div id="live" role="status" aria-live="polite" aria-atomic="true"><h1 id="heading" tabindex="-1">${shown.heading}</h1><p id="text">${shown.text}</p></div><p id="more" class="soft"${hiddenUnless(shown.more !== null)}>${shown.more}</p><p id="left" class="soft" hidden>${say('time_left')}: <span id="clock" role="timer" dir="ltr"></span></p><progress id="progress" max="1" value="${shown.progress}" aria-labelledby="more"${hiddenUnless(shown.progress !== null)}></progress></div></div>
<p id="notice" role="alert" hidden></p>`
}

/** What to send. */
function dueOf({payment, shown, settings, voice: {say}}: Page): Html {
  const {token, chain} = payment
  return html`<section id="due"${hiddenUnless(shown.due !== null)}><p class="soft">${say('send_exactly')}</p><div class="copied figure"><p dir="ltr"><span id="amount">${shown.due}</span> ${token}</p>${copyButton('amount', say)}</div>
<p class="only">${mark(chain, token, token === settings.chain.assets[0].token)}<strong id="only">${say('only', {token, network: networkOf(payment, settings)})}</strong></p></section>`
}

/** How to send it. */
function howOf({token: page, payment: {address}, shown, voice: {say}}: Page): Html {
  const isAddress = shown.code === address
  const isDue = shown.due !== null
  return html`<section id="how"${hiddenUnless(isDue)}><img id="code"${isDue && html` src="${page}/qr.svg"`} alt="${say(isAddress ? 'code_of_address' : 'code_of_payment')}" width="200" height="200">
<div class="copied"><code id="address" dir="ltr">${chunksOf(address)}</code>${copyButton('address', say)}</div>
<p id="note" class="soft"${hiddenUnless(isAddress)}>${say('enter_amount')}</p>
<div id="wallets"${hiddenUnless(shown.wallet !== null)}></div><a id="wallet" class="button" target="_top" href="${shown.uri}"${hiddenUnless(!isAddress)}>${say('open_wallet')}</a>
<p id="wallet-says" role="status"></p>
</section>`
}

/** In groups for the eye, its ends stressed; copied, it is one word. */
function chunksOf(address: string): Html[] {
  const chunks = address.match(/^0x|.{1,4}/g)!.reduce<string[]>((all, chunk) => {
    if (all.length === 1 && all[0] === '0x') all[0] += chunk
    else all.push(chunk)
    return all
  }, [])
  const isEnd = (index: number) => index === 0 || index >= chunks.length - (chunks.at(-1)!.length < 4 ? 2 : 1)
  return chunks.map((chunk, index) => (isEnd(index) ? html`<b>${chunk}</b>` : html`<i>${chunk}</i>`))
}

function copyButton(what: 'amount' | 'address' | 'txid', say: Voice['say']): Html {
  return html`<button type="button" class="copy" data-copies="${what}" aria-label="${say(`copy_${what}`)}" hidden>${copyPicture}<span>${say('copy')}</span></button>`
}

function nextOf({token: page, payment, shown, settings, voice: {say, duration, time}}: Page): Html {
  const ms = msToFinal(payment, settings)
  const merchant = payment.merchant_name
  const isDue = shown.due !== null
  const isChoice = shown.code === payment.address && shown.uri !== payment.address
  return html`<section id="next"${hiddenUnless(isDue)}><h2>${say('next')}</h2><ol><li>${say('next_send')}</li><li>${say('next_seen')}</li><li>${
    ms === undefined ? say('next_final', {merchant}) : say('next_final_in', {merchant, time: duration(ms)})
  }</li></ol><p class="soft">${filled(say('pay_before', {time: '\0'}), html`<time datetime="${payment.expires_at}">${time(payment.expires_at)}</time>`)}</p><p class="soft">${say('only_counts')}</p>
<details id="choice"${hiddenUnless(isChoice)}><summary>${say('other_code')}</summary><p>${say('other_code_check')}</p><img id="link"${isDue && html` src="${page}/qr.svg?content=payment_uri" loading="lazy"`} alt="${say('code_of_payment')}" width="200" height="200"></details></section>`
}

function receiptOf(lines: ReceiptLine[] | null, {say}: Voice): Html {
  const shown = (lines ?? []).map(
    ([label, value, url]) =>
      html`<div><dt>${label}</dt><dd>${url ? linkTo(url, value) : html`<bdi>${value}</bdi>`}</dd></div>`,
  )
  return html`<section id="receipt"${hiddenUnless(lines !== null)}><h2>${say('receipt')}</h2><dl id="lines">${shown}</dl><button type="button" id="print" hidden>${say('print')}</button></section>`
}

function languageSwitch({language, say}: Voice): Html {
  const links = languageCodes.map(
    code =>
      html`<li><a href="?lang=${code}" lang="${code}" hreflang="${code}"${code === language && html` aria-current="true"`}>${languages[code].language}</a></li>`,
  )
  return html`<details class="languages"><summary aria-label="${say('languages')}: ${languages[language].language}">${languages[language].language}</summary><ul>${links}</ul></details>`
}

/** Where a customer finds the merchant. */
function linksOf({merchant_name, brand}: Payment, {say}: Voice): Html | false {
  const links = [
    brand.site_url && linkTo(brand.site_url, merchant_name),
    brand.help_url && linkTo(brand.help_url, say('help')),
  ]
  const shown = links.filter(link => link instanceof Object)
  return shown.length > 0 && html`<p class="soft">${shown.map((link, index) => [index > 0 && ' · ', link])}</p>`
}

/** Out of a frame: in its own tab, but for the way back to the shop. */
function linkTo(url: string, text: string, {isBack = false} = {}): Html {
  const target = isBack ? html` class="button back" target="_top"` : html` target="_blank"`
  return html`<a href="${url}"${target} rel="noopener noreferrer"><bdi>${text}</bdi></a>`
}

/** What the script says by itself; what it fills in stays in braces. */
function wordsOfScript({say}: Voice, network: string): Partial<Words> {
  const kept = {wallet: '{wallet}', time: '{time}', network}
  const keys = [
    'code_of_address',
    'code_of_payment',
    'amount_copied',
    'address_copied',
    'txid_copied',
    'not_copied',
    'pay_with',
    'wallet_asks',
    'wallet_sent',
    'wallet_maybe',
    'wallet_failed',
    'wallet_network',
    'unreached',
  ] as const
  return Object.fromEntries(keys.map(key => [key, say(key, kept)]))
}

/** Markup in a text, where it has the character 0. */
function filled(text: string, part: Html): Html {
  const [before, after] = text.split('\0')
  return html`${before}${part}${after}`
}

/** A script of ours, as it is. */
const inline = (text: string) => html([text] as unknown as TemplateStringsArray)

const reload = html`<meta http-equiv="refresh" content="${secondsBetweenReloads}">`

const hiddenUnless = (shown: boolean) => !shown && html` hidden`

function documentOf(title: string, body: Html, voice: Voice, more: {sheet?: Html; reload?: Html} = {}): string {
  return html`<!doctype html><html lang="${voice.language}"${voice.isRightToLeft && html` dir="rtl"`}><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex"><link rel="icon" href="data:,"><meta name="color-scheme" content="light dark">${more.reload}<title>${title}</title><style>${inline(style)}</style>${more.sheet}</head><body>
${body}</body></html>`.text
}
