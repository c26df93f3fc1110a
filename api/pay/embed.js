// The payment page on a merchant's own site: <script src="…/pay.js" defer></script>, and elements that name a payment.
// A button or a link with data-sluice-payment="<payment_url>" opens it over the site; any other element shows it inside.
// Promises: it shows pages of its own service alone; each change of the state is an event "sluice-payment" on the
// element, which says nothing that a server may rely on.
;(() => {
  const script = /** @type {HTMLScriptElement} */ (document.currentScript)
  const {origin} = new URL(script.src)
  /** @type {{frame: HTMLIFrameElement, element: HTMLElement, told?: string}[]} */
  const shown = []

  /** @param {HTMLElement} element */
  function frameOf(element) {
    const url = new URL(element.dataset.sluicePayment ?? '', origin)
    if (url.origin !== origin) throw new Error(`pay.js of ${origin} shows payments of ${origin} alone, not ${url}`)
    const frame = document.createElement('iframe')
    frame.src = url.href
    frame.title = element.dataset.title ?? 'Payment'
    frame.allow = 'clipboard-write'
    frame.style.cssText = 'width:100%;height:42rem;border:0;color-scheme:normal'
    shown.push({frame, element})
    return frame
  }

  /** @param {HTMLElement} element */
  function open(element) {
    const dialog = document.createElement('dialog')
    dialog.style.cssText =
      'width:min(30rem,100vw);max-width:100vw;max-height:100vh;padding:0;border:0;border-radius:.5rem'
    const close = document.createElement('button')
    close.type = 'button'
    close.ariaLabel = 'Close'
    close.textContent = '×'
    close.style.cssText = 'display:block;width:100%;min-height:2.75rem;border:0;font-size:1.5rem;cursor:pointer'
    close.addEventListener('click', () => dialog.close())
    dialog.addEventListener('close', () => dialog.remove())
    dialog.append(close, frameOf(element))
    document.body.append(dialog)
    dialog.showModal()
  }

  window.addEventListener('message', event => {
    const from = event.origin === origin && shown.find(({frame}) => frame.contentWindow === event.source)
    if (!from || event.data?.type !== 'sluice-payment') return
    const {state, external_id, height} = event.data
    if (Number.isFinite(height)) from.frame.style.height = `${Math.min(height, 4000)}px`
    if (from.told === state) return
    from.told = state
    from.element.dispatchEvent(new CustomEvent('sluice-payment', {bubbles: true, detail: {state, external_id}}))
  })

  /** @param {HTMLElement} element */
  function prepare(element) {
    if (element.matches('a, button'))
      element.addEventListener('click', event => {
        event.preventDefault()
        open(element)
      })
    else element.append(frameOf(element))
  }

  for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-sluice-payment]')))
    try {
      prepare(element)
    } catch (error) {
      console.error(error) // the other elements are shown
    }
})()
