// The live part of the page, in the customer's browser. Promises: while the page is visible it shows the state of some
// seconds ago, or says within a minute that the service cannot be reached and how old the data is; nothing is announced
// twice; a wallet is asked for exactly what the page shows, and once; only the sites that the merchant names hear of
// the state.

/** @import {Shown} from './shown.ts' */

const firstRetrySeconds = 3
const longestRetrySeconds = 30
/** Where a stream tells when something is new. */
const longestQuietSeconds = 60
/** A stream says every 15 seconds that it lives. */
const silentMs = 30_000
const longestReopenMs = 60_000
/** A tick that comes later found the machine asleep. */
const asleepMs = 10_000
const timeoutMs = 8_000

const isFramed = window.parent !== window
document.body.classList.toggle('framed', isFramed)
const main = /** @type {HTMLElement} */ (document.querySelector('main'))
const token = main.dataset.token
const language = main.dataset.language
const latin = /** @type {const} */ ({numberingSystem: 'latn'})
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
/** In a frame, somebody may have scrolled it away. */
let isOnScreen = true
let hasCodeFailed = false
/** As JSON. */
let receiptShown = JSON.stringify(shown.receipt)
/** By the monotonic clock. */
let expiresAt = 0
let wholeTimeMs = 1
let nextAskAt = Number.POSITIVE_INFINITY
let tickedAt = Date.now()
/** @type {EventSource | undefined} */
let stream
let heardAt = 0
/** What a stream has told the page so far. */
let told = 0
let reopenAt = 0
let reopenMs = 2_000

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
  element('more').hidden = shown.more === null
  put('more', shown.more ?? '')
  if (shown.due !== null && (shown.due !== wasDue || hasCodeFailed)) showDue(shown.due)
  const hadFocus = document.activeElement?.closest('#due, #how, #next')
  for (const id of ['due', 'how', 'next']) element(id).hidden = shown.due === null
  if (hadFocus && shown.due === null) element('heading').focus()
  element('wallets').hidden = shown.wallet === null
  showButtons()
  const leftMs = (shown.seconds_left ?? 0) * 1000
  expiresAt = performance.now() + leftMs
  wholeTimeMs = leftMs / (shown.time_left || 1)
  element('transaction').hidden = shown.txid === null || shown.receipt !== null
  put('txid', shown.transaction ?? '')
  element('txid').title = shown.txid ?? ''
  if (shown.transaction_url !== null) element('txid').setAttribute('href', shown.transaction_url)
  showReceipt()
  showClock()
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
  const code = /** @type {HTMLImageElement} */ (element('code'))
  code.alt = word(isAddress ? 'code_of_address' : 'code_of_payment')
  code.src = `${token}/qr.svg?amount=${due}`
  element('link').setAttribute('src', `${token}/qr.svg?content=payment_uri&amount=${due}`)
  hasCodeFailed = false
  put('wallet-says', '')
}

/** @param {string} name */
const made = name => document.createElement(name)

function showReceipt() {
  element('receipt').hidden = shown.receipt === null
  const receipt = JSON.stringify(shown.receipt)
  if (shown.receipt === null || receipt === receiptShown) return
  receiptShown = receipt
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

/** @returns {Promise<Shown>} */
async function stateNow() {
  const url = `${token}/state?lang=${language}`
  const reply = await fetch(url, {cache: 'no-store', signal: AbortSignal.timeout(timeoutMs)})
  if (!reply.ok) throw new Error(`the service responds with ${reply.status}`)
  return await reply.json()
}

async function ask() {
  if (isAsking) return
  isAsking = true
  nextAskAt = Number.POSITIVE_INFINITY
  const toldBefore = told
  try {
    const next = await stateNow()
    if (told === toldBefore) show(next) // else a stream was faster
    failures = 0
  } catch {
    failures += 1
  }
  isAsking = false
  showFailure()
  nextAskAt = Math.min(nextAskAt, dueAt())
}

/** When to ask again without news, by the monotonic clock. */
function dueAt() {
  const now = performance.now()
  if (failures > 0) return now + Math.min(firstRetrySeconds * 2 ** (failures - 1), longestRetrySeconds) * 1000
  const seconds = isHeard() ? longestQuietSeconds : shown.poll_seconds
  // At its end a request changes without news from a chain.
  const end = shown.seconds_left === null ? Number.POSITIVE_INFINITY : Math.max(expiresAt, now) + 1000
  return Math.min(now + seconds * 1000, end)
}

function showFailure() {
  document.body.classList.toggle('unreached', failures > 0)
  element('notice').hidden = failures === 0
  if (failures > 0) put('notice', word('unreached').replace('{time}', asOf.toLocaleTimeString(language, latin)))
}

const isLookedAt = () => !document.hidden && isOnScreen
const isHeard = () => stream?.readyState === EventSource.OPEN && performance.now() - heardAt < silentMs

/** What was shown may be old: asks at once. */
function refresh() {
  nextAskAt = 0
  tick()
}

function tick() {
  const isAwake = Date.now() - tickedAt < asleepMs
  tickedAt = Date.now()
  showClock()
  if (!isAwake) return refresh()
  listen()
  if (isLookedAt() && performance.now() >= nextAskAt) void ask()
}

/** Keeps a stream of news open while somebody looks; without one, the page polls. */
function listen() {
  const isWanted = isLookedAt()
  if (stream && (!isWanted || performance.now() - heardAt > silentMs)) close()
  if (!isWanted || stream || performance.now() < reopenAt) return
  const opened = new EventSource(`${token}/events?lang=${language}`)
  stream = opened
  heardAt = performance.now()
  opened.addEventListener('error', () => opened === stream && close())
  for (const what of ['open', 'alive', 'news'])
    opened.addEventListener(what, event => {
      heardAt = performance.now()
      if (what === 'alive') reopenMs = 2_000
      if (what === 'news') hear(/** @type {MessageEvent<string>} */ (event).data)
    })
}

/** @param {string} said Nothing while the service is being upgraded: it may only say that there is news. */
function hear(said) {
  if (said === '') return refresh()
  told += 1
  failures = 0
  show(JSON.parse(said))
  showFailure()
  nextAskAt = dueAt()
}

/** Another one is opened later, ever later while it fails; until then the page polls. */
function close() {
  stream?.close()
  stream = undefined
  reopenAt = performance.now() + reopenMs * (1 + Math.random())
  reopenMs = Math.min(reopenMs * 2, longestReopenMs)
  nextAskAt = Math.min(nextAskAt, dueAt())
}

/** The sites around the page, if it is in a frame of one of the merchant's. */
function tellSites() {
  if (!isFramed) return
  const {state, external_id} = shown
  const height = Math.ceil(document.documentElement.getBoundingClientRect().height)
  for (const site of sites) window.parent.postMessage({type: 'sluice-payment', state, external_id, height}, site)
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let copiedTimer

/** @param {HTMLElement} button */
async function copy(button) {
  const what = button.dataset.copies ?? ''
  const source = element(what)
  const isCopied = await navigator.clipboard?.writeText(source.title || source.textContent || '').then(
    () => true,
    () => false,
  )
  if (!isCopied) window.getSelection()?.selectAllChildren(source)
  if (isFramed) (button.closest('.copied') ?? button).after(element('copied'))
  put('copied', word(isCopied ? `${what}_copied` : 'not_copied'))
  clearTimeout(copiedTimer)
  copiedTimer = setTimeout(() => put('copied', ''), 5_000)
}

/**
 * Wallets in the browser announce themselves (EIP-6963) and are asked as EIP-1193 says. Their names and pictures are
 * theirs: a name is shown as text, and a picture is loaded only if it is in the announcement itself.
 * @typedef {{request(call: {method: string, params?: unknown[]}): Promise<any>}} Provider
 * @typedef {{info: {uuid: string, name: string, icon: string}, provider: Provider}} Announced
 */
const announced = new Set()
let isPaying = false
/** What a wallet sent, or may have sent: nobody is asked for the same again, also after a reload in this tab. */
let asked = kept()

function kept() {
  try {
    return sessionStorage.getItem(`sluice-asked-${token}`) ?? ''
  } catch {
    return '' // a frame may be kept from storing anything
  }
}

/** @param {Shown['wallet']} call */
function keepAsked(call) {
  asked = JSON.stringify(call)
  try {
    sessionStorage.setItem(`sluice-asked-${token}`, asked)
  } catch {}
}

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
  button.append(word('pay_with').replace('{wallet}', () => String(info.name).slice(0, 40)))
  button.addEventListener('click', () => void pay(provider))
  element('wallets').append(button)
  showButtons()
}

/** A button keeps the focus while it cannot be pressed. */
function showButtons() {
  const isOff = isPaying || asked === JSON.stringify(shown.wallet)
  for (const button of element('wallets').children) button.setAttribute('aria-disabled', String(isOff))
}

/** @param {Provider} provider */
async function pay(provider) {
  const call = shown.wallet
  if (call === null || isPaying || asked === JSON.stringify(call)) return
  isPaying = true
  showButtons()
  put('wallet-says', word('wallet_asks'))
  put('wallet-says', word(await sent(provider, call)))
  isPaying = false
  showButtons()
}

/**
 * Asks a wallet to send. Returns what to say of how that ended.
 * @param {Provider} provider
 * @param {NonNullable<Shown['wallet']>} call
 */
async function sent(provider, call) {
  let isAsked = false
  try {
    const [from] = await provider.request({method: 'eth_requestAccounts'})
    if (!(await isOn(provider, call.chain_id))) return 'wallet_network'
    // What is due may have changed, or ended, while the person was in the wallet.
    show(await stateNow())
    if (JSON.stringify(shown.wallet) !== JSON.stringify(call)) return 'wallet_failed'
    const {chain_id: chainId, ...transaction} = call
    isAsked = true
    await provider.request({method: 'eth_sendTransaction', params: [{from, chainId, ...transaction}]})
    keepAsked(call)
    return 'wallet_sent'
  } catch (error) {
    const isRefused = /** @type {{code?: number}} */ (error)?.code === 4001 // EIP-1193: the person said no
    if (!isAsked || isRefused) return 'wallet_failed'
    keepAsked(call)
    return 'wallet_maybe'
  }
}

/**
 * Whether a wallet is on a network now, which it may have been asked to change to.
 * @param {Provider} provider
 * @param {string} chainId
 */
async function isOn(provider, chainId) {
  try {
    await provider.request({method: 'wallet_switchEthereumChain', params: [{chainId}]})
  } catch (error) {
    if (/** @type {{code?: number}} */ (error)?.code === 4902) return false // EIP-3326: the wallet does not know the chain
    throw error
  }
  return BigInt(await provider.request({method: 'eth_chainId'})) === BigInt(chainId)
}

for (const button of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-copies]'))) {
  button.hidden = false
  button.addEventListener('click', () => copy(button))
}
element('print').hidden = false
element('print').addEventListener('click', () => window.print())
element('code').addEventListener('error', () => {
  hasCodeFailed = true
  nextAskAt = Math.min(nextAskAt, performance.now() + firstRetrySeconds * 1000)
})
const menu = /** @type {HTMLDetailsElement} */ (document.querySelector('.languages'))
document.addEventListener('click', ({target}) => {
  if (!menu.contains(/** @type {Node} */ (target))) menu.open = false
})
document.addEventListener('visibilitychange', refresh)
// Shown again from memory, as after "back".
window.addEventListener('pageshow', event => {
  if (event.persisted) refresh()
})
window.addEventListener('online', refresh)
new ResizeObserver(tellSites).observe(document.documentElement)
// A busy browser reports several changes in one call; the last entry is the current one.
new IntersectionObserver(entries => {
  const wasOnScreen = isOnScreen
  isOnScreen = entries.at(-1)?.isIntersecting ?? true
  if (isOnScreen !== wasOnScreen) refresh()
}).observe(main)
const until = /** @type {HTMLTimeElement} */ (document.querySelector('time'))
until.textContent = new Date(until.dateTime).toLocaleString(language, {
  ...latin,
  month: 'short',
  day: 'numeric',
  hour: 'numeric',
  minute: '2-digit',
  timeZoneName: 'short',
})
show(shown)
if (asked !== '' && asked === JSON.stringify(shown.wallet)) put('wallet-says', word('wallet_maybe'))
nextAskAt = dueAt()
tick()
setInterval(tick, 1000)
window.addEventListener('eip6963:announceProvider', event =>
  offer(/** @type {CustomEvent<Announced>} */ (event).detail),
)
window.dispatchEvent(new Event('eip6963:requestProvider'))
