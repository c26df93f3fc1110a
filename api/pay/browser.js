// The live part of the page, in the customer's browser. Promises: while the page is visible it shows what the service sent some seconds
// ago, or says that the service cannot be reached and how old the data is; nothing is announced twice.

/** @import {Shown} from './shown.ts' */

const firstRetrySeconds = 3
const longestRetrySeconds = 30
const timeoutMs = 8_000

const main = /** @type {HTMLElement} */ (document.querySelector('main'))
const token = main.dataset.token
/** @type {Shown} */
let shown = JSON.parse(main.dataset.shown ?? '')
let asOf = new Date()
let failures = 0
let isAsking = false
/** By the monotonic clock. */
let expiresAt = 0
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer

/** @param {string} id */
function element(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id))
}

/**
 * A text that stays the same is not written again: screen readers would read it aloud again.
 * @param {string} id
 * @param {string} text
 */
function put(id, text) {
  if (element(id).textContent !== text) element(id).textContent = text
}

/** @param {Shown} next */
function show(next) {
  const wasDue = shown.due
  shown = next
  asOf = new Date()
  document.title = document.title.replace(/^.*: /, `${shown.heading}: `)
  element('live').dataset.state = shown.state
  put('heading', shown.heading)
  put('text', shown.text)
  element('due').hidden = shown.due === null
  if (shown.due !== null && shown.due !== wasDue) showDue(shown.due)
  expiresAt = performance.now() + (shown.seconds_left ?? 0) * 1000
  element('transaction').hidden = shown.txid === null
  put('txid', shown.transaction ?? '')
  element('txid').title = shown.txid ?? ''
  if (shown.transaction_url !== null) element('txid').setAttribute('href', shown.transaction_url)
}

/** @param {string} due */
function showDue(due) {
  put('amount', due)
  const isAddress = shown.code === element('address').textContent
  element('wallet').hidden = isAddress
  element('note').hidden = !isAddress
  element('choice').hidden = !isAddress || shown.uri === shown.code
  element('wallet').setAttribute('href', shown.uri ?? '')
  element('code').setAttribute('src', `${token}/qr.svg?amount=${due}`)
  element('link').setAttribute('src', `${token}/qr.svg?content=payment_uri&amount=${due}`)
}

function showClock() {
  const seconds = Math.round((expiresAt - performance.now()) / 1000)
  element('left').hidden = seconds <= 0
  if (seconds <= 0) return
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60]
  put('clock', parts.map(part => String(part).padStart(2, '0')).join(':'))
}

async function ask() {
  if (isAsking) return
  isAsking = true
  clearTimeout(timer)
  try {
    const reply = await fetch(`${token}/state`, {cache: 'no-store', signal: AbortSignal.timeout(timeoutMs)})
    if (!reply.ok) throw new Error(`the service responds with ${reply.status}`)
    show(await reply.json())
    failures = 0
  } catch {
    failures += 1
  }
  isAsking = false
  showFailure()
  askLater()
}

function showFailure() {
  document.body.classList.toggle('unreached', failures > 0)
  element('notice').hidden = failures === 0
  if (failures > 0)
    put(
      'notice',
      `The payment service cannot be reached; trying again. What you see is from ${asOf.toLocaleTimeString()}.`,
    )
}

function askLater() {
  clearTimeout(timer)
  if (document.hidden) return // it asks again when it is visible
  const retry = Math.min(firstRetrySeconds * 2 ** (failures - 1), longestRetrySeconds)
  const seconds = failures > 0 ? retry : shown.poll_seconds
  if (seconds !== null) timer = setTimeout(ask, seconds * 1000)
}

/** @param {HTMLElement} button */
async function copy(button) {
  const source = element(button.dataset.copies ?? '')
  const isCopied = await navigator.clipboard?.writeText(source.title || source.textContent || '').then(
    () => true,
    () => false,
  )
  if (!isCopied) window.getSelection()?.selectAllChildren(source)
  put(
    'copied',
    isCopied
      ? `${button.textContent?.replace('Copy ', 'The ')} is copied.`
      : 'The text is selected: please copy it by hand.',
  )
}

for (const button of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-copies]'))) {
  button.hidden = false
  button.addEventListener('click', () => copy(button))
}
document.addEventListener('visibilitychange', () => {
  if (document.hidden) clearTimeout(timer)
  else if (failures > 0 || shown.poll_seconds !== null) ask()
})
// Shown again from memory, as after "back".
window.addEventListener('pageshow', event => {
  if (event.persisted) ask()
})
window.addEventListener('online', () => {
  if (failures > 0) ask()
})
const until = /** @type {HTMLTimeElement} */ (document.querySelector('time'))
until.textContent = new Date(until.dateTime).toLocaleString([], {dateStyle: 'medium', timeStyle: 'short'})
show(shown)
showClock()
setInterval(showClock, 1000)
askLater()
