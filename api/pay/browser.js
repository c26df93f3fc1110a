// The live part of the page, in the customer's browser. Promises: while the page is visible it shows what the service
// sent some seconds ago, or says that the service cannot be reached and how old the data is; nothing is announced
// twice; a wallet is asked for exactly what the page shows; only the sites that the merchant names hear of the state.

/** @import {Shown} from './shown.ts' */

const firstRetrySeconds = 3
const longestRetrySeconds = 30
/** Where a stream tells when something is new. */
const longestQuietSeconds = 60
/** Many pages may be told at once. */
const longestDelayMs = 1_000
const timeoutMs = 8_000

const main = /** @type {HTMLElement} */ (document.querySelector('main'))
const token = main.dataset.token
const query = `?lang=${main.dataset.language}`
/** @type {Record<string, string>} */
const words = JSON.parse(main.dataset.words ?? '')
/** @param {string} key */
const word = key => words[key] ?? ''
/** @type {string[]} */
const sites = JSON.parse(main.dataset.sites ?? '')
/** @type {Shown} */
let shown = JSON.parse(main.dataset.shown ?? '')
let asOf = new Date()
let failures = 0
let isAsking = false
/** By the monotonic clock. */
let expiresAt = 0
let wholeTimeMs = 1
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer
/** @type {EventSource | undefined} */
let stream

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
  element('status').dataset.state = shown.state
  put('heading', shown.heading)
  put('text', shown.text)
  const progress = /** @type {HTMLProgressElement} */ (element('progress'))
  progress.hidden = shown.progress === null
  progress.value = shown.progress ?? 0
  for (const id of ['due', 'how', 'next']) element(id).hidden = shown.due === null
  if (shown.due !== null && shown.due !== wasDue) showDue(shown.due)
  const leftMs = (shown.seconds_left ?? 0) * 1000
  expiresAt = performance.now() + leftMs
  wholeTimeMs = leftMs / (shown.time_left || 1)
  element('transaction').hidden = shown.txid === null || shown.receipt !== null
  put('txid', shown.transaction ?? '')
  element('txid').title = shown.txid ?? ''
  if (shown.transaction_url !== null) element('txid').setAttribute('href', shown.transaction_url)
  showReceipt()
  tellSites()
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
  element('wallet-says').hidden = true
}

/** @param {string} name */
const made = name => document.createElement(name)

function showReceipt() {
  element('receipt').hidden = shown.receipt === null
  if (shown.receipt === null || element('lines').childElementCount === shown.receipt.length) return
  element('lines').replaceChildren(
    ...shown.receipt.map(([label, value, url]) => {
      const [line, term, detail] = [made('div'), made('dt'), made('dd')]
      const text = made(url === null ? 'bdi' : 'a')
      if (url !== null) Object.assign(text, {href: url, target: '_blank', rel: 'noopener noreferrer'})
      text.textContent = value
      term.textContent = label
      detail.append(text)
      line.append(term, detail)
      return line
    }),
  )
}

function showClock() {
  const leftMs = expiresAt - performance.now()
  const seconds = Math.round(leftMs / 1000)
  element('left').hidden = seconds <= 0
  element('ring').setAttribute('stroke-dashoffset', String(1 - Math.max(0, Math.min(1, leftMs / wholeTimeMs))))
  if (seconds <= 0) return
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60]
  put('clock', parts.map(part => String(part).padStart(2, '0')).join(':'))
}

async function ask() {
  if (isAsking) return
  isAsking = true
  clearTimeout(timer)
  try {
    const reply = await fetch(`${token}/state${query}`, {cache: 'no-store', signal: AbortSignal.timeout(timeoutMs)})
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
  if (failures > 0) put('notice', word('unreached').replace('{time}', asOf.toLocaleTimeString(main.dataset.language)))
}

function askLater() {
  clearTimeout(timer)
  if (document.hidden) return // it asks again when it is visible
  const retry = Math.min(firstRetrySeconds * 2 ** (failures - 1), longestRetrySeconds)
  const quiet = stream?.readyState === EventSource.OPEN ? longestQuietSeconds : shown.poll_seconds
  const seconds = failures > 0 ? retry : shown.poll_seconds && quiet
  // At its end a request changes without news from a chain.
  const endsIn = shown.seconds_left === null ? Number.POSITIVE_INFINITY : (expiresAt - performance.now()) / 1000 + 1
  if (seconds !== null) timer = setTimeout(ask, Math.max(0, Math.min(seconds, endsIn)) * 1000)
}

/** Opens a stream of news while somebody looks and anything may change; without one, the page polls. */
function listen() {
  const isWanted = !document.hidden && shown.poll_seconds !== null
  if (!isWanted) stream?.close()
  if (!isWanted || (stream && stream.readyState !== EventSource.CLOSED)) return
  const opened = new EventSource(`${token}/events`)
  stream = opened
  opened.addEventListener('open', askLater)
  opened.addEventListener('error', askLater)
  opened.addEventListener('news', () => {
    clearTimeout(timer)
    timer = setTimeout(ask, Math.random() * longestDelayMs)
  })
}

/** The sites around the page, if it is in a frame of one of the merchant's. */
function tellSites() {
  if (window.parent === window) return
  const {state, external_id} = shown
  const height = Math.ceil(document.documentElement.getBoundingClientRect().height)
  for (const site of sites) window.parent.postMessage({type: 'sluice-payment', state, external_id, height}, site)
}

/** @param {HTMLElement} button */
async function copy(button) {
  const what = button.dataset.copies ?? ''
  const source = element(what)
  const isCopied = await navigator.clipboard?.writeText(source.title || source.textContent || '').then(
    () => true,
    () => false,
  )
  if (!isCopied) window.getSelection()?.selectAllChildren(source)
  put('copied', word(isCopied ? `${what}_copied` : 'not_copied'))
  setTimeout(() => put('copied', ''), 5_000)
}

/**
 * Wallets in the browser announce themselves (EIP-6963) and are asked as EIP-1193 says. Their names and pictures are
 * theirs: a name is shown as text, and a picture is loaded only if it is in the announcement itself.
 * @typedef {{request(call: {method: string, params?: unknown[]}): Promise<any>}} Provider
 * @typedef {{info: {uuid: string, name: string, icon: string}, provider: Provider}} Announced
 */
const announced = new Set()
/** @param {Announced} wallet */
function offer({info, provider}) {
  if (announced.has(info.uuid)) return
  announced.add(info.uuid)
  const button = document.createElement('button')
  button.type = 'button'
  if (/^data:image\/(png|jpeg|webp|gif|svg\+xml)[;,]/.test(info.icon)) {
    const icon = document.createElement('img')
    icon.alt = ''
    icon.src = info.icon
    button.append(icon)
  }
  button.append(word('pay_with').replace('{wallet}', String(info.name).slice(0, 40)))
  button.addEventListener('click', () => void pay(button, provider))
  element('wallets').append(button)
}

/**
 * @param {HTMLButtonElement} button
 * @param {Provider} provider
 */
async function pay(button, provider) {
  const call = shown.wallet
  if (call === null) return
  button.disabled = true
  say('wallet_asks')
  try {
    const [from] = await provider.request({method: 'eth_requestAccounts'})
    const isThere = await provider
      .request({method: 'wallet_switchEthereumChain', params: [{chainId: call.chain_id}]})
      .then(() => provider.request({method: 'eth_chainId'}))
      .then(chainId => BigInt(chainId) === BigInt(call.chain_id))
      .catch(error => {
        if (error?.code === 4902) return false // EIP-3326: the wallet does not know the chain
        throw error
      })
    if (!isThere) return say('wallet_network')
    // What is due may have changed while the person thought.
    if (JSON.stringify(shown.wallet) !== JSON.stringify(call)) return say('wallet_failed')
    const {to, value, data} = call
    await provider.request({method: 'eth_sendTransaction', params: [{from, to, value, data}]})
    say('wallet_sent')
  } catch {
    say('wallet_failed')
  } finally {
    button.disabled = false
  }
}

/** @param {string} key */
function say(key) {
  element('wallet-says').hidden = false
  put('wallet-says', word(key))
}

for (const button of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-copies]'))) {
  button.hidden = false
  button.addEventListener('click', () => copy(button))
}
element('print').hidden = false
element('print').addEventListener('click', () => window.print())
document.addEventListener('visibilitychange', () => {
  if (document.hidden) clearTimeout(timer)
  else if (failures > 0 || shown.poll_seconds !== null) ask()
  listen()
})
// Shown again from memory, as after "back".
window.addEventListener('pageshow', event => {
  if (event.persisted) ask()
})
window.addEventListener('online', () => {
  if (failures > 0) ask()
})
new ResizeObserver(tellSites).observe(document.documentElement)
const until = /** @type {HTMLTimeElement} */ (document.querySelector('time'))
until.textContent = new Date(until.dateTime).toLocaleString(main.dataset.language, {
  dateStyle: 'medium',
  timeStyle: 'short',
})
show(shown)
showClock()
setInterval(showClock, 1000)
askLater()
listen()
if (shown.wallet !== null) {
  window.addEventListener('eip6963:announceProvider', event =>
    offer(/** @type {CustomEvent<Announced>} */ (event).detail),
  )
  window.dispatchEvent(new Event('eip6963:requestProvider'))
}
