// What the pages do more with JavaScript: live parts, copying, local times. Promises: what a person types, and where the focus is, survives an update;
// many open pages do not ask in the same instant; after the session ended, or after "back", a page shows nothing that is out of date.

/** @import {Htmx} from 'htmx.org' */

const {htmx} = /** @type {{htmx: Htmx}} */ (/** @type {unknown} */ (window))
const longestWaitMs = 30_000
const spreadMs = 1000
/** For parts that change without news. */
const lookAgainMs = 3000

/** @param {string} text Read out by screen readers. */
function say(text) {
  const said = document.getElementById('said')
  if (said) said.textContent = text
}

/** @param {Element} button */
async function copy(button) {
  const source = button.previousElementSibling
  if (!source) return
  const isCopied = await navigator.clipboard?.writeText(source.textContent ?? '').then(
    () => true,
    () => false,
  )
  if (!isCopied) window.getSelection()?.selectAllChildren(source)
  say(isCopied ? 'Copied.' : 'The text is selected: please copy it by hand.')
  button.textContent = isCopied ? 'Copied' : 'Selected'
  setTimeout(() => {
    button.textContent = 'Copy'
  }, 2000)
}

document.addEventListener('click', event => {
  const button = event.target instanceof Element && event.target.closest('[data-copies]')
  if (button) copy(button)
})

// The pages show UTC; whoever points at a time sees it in the time zone of the browser.
document.addEventListener('mouseover', ({target}) => {
  const time = target instanceof Element && target.closest('time')
  if (time && !time.title)
    time.title = new Date(time.dateTime).toLocaleString([], {dateStyle: 'full', timeStyle: 'long'})
})

// A page out of the browser's memory may be of a session that has ended.
window.addEventListener('pageshow', event => {
  if (event.persisted) location.reload()
})

if (document.body.hasAttribute('data-live')) {
  let isOutdated = false
  let waitMs = 1000
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer

  function refreshSoon() {
    isOutdated = true
    if (!document.hidden && timer === undefined) timer = setTimeout(refresh, Math.random() * spreadMs)
  }

  function refresh() {
    timer = undefined
    isOutdated = false
    for (const part of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-part]')))
      htmx.ajax('GET', part.dataset.part ?? '', {source: part, target: part, swap: 'innerMorph'})
  }

  function follow() {
    const stream = new EventSource('/live')
    stream.addEventListener('open', () => {
      waitMs = 1000
    })
    stream.addEventListener('news', refreshSoon) // the first one comes at once: what happened since the page was made
    stream.addEventListener('error', () => {
      if (stream.readyState !== EventSource.CLOSED) return // it connects again by itself
      setTimeout(resume, waitMs)
      waitMs = Math.min(waitMs * 2, longestWaitMs)
    })
  }

  /** The stream was refused: the session has ended, or the service cannot be reached. Without a session, the page leads to the sign-in. */
  async function resume() {
    const reply = await fetch(location.href, {redirect: 'manual'}).catch(() => undefined)
    if (reply?.type === 'opaqueredirect') location.reload()
    else if (reply?.ok) follow()
    else {
      setTimeout(resume, waitMs)
      waitMs = Math.min(waitMs * 2, longestWaitMs)
    }
  }

  // Instead of a part came the sign-in.
  document.addEventListener('htmx:before:response', event => {
    if (!event.detail.ctx.response?.raw.redirected) return
    event.preventDefault()
    location.reload()
  })
  setInterval(() => {
    if (document.querySelector('[data-soon]')) refreshSoon()
  }, lookAgainMs)
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && isOutdated) refreshSoon()
  })
  follow()
}
