// Passkeys (WebAuthn), on the pages that have a button or a form for them. Promises: without them in the browser, neither is shown; what goes wrong is said
// in words, beside the button.

/** @param {string} path @param {object} [body] @returns {Promise<any>} */
async function ask(path, body) {
  const response = await fetch(`/auth/passkey/${path}`, {
    method: body ? 'POST' : 'GET',
    headers: body ? {'content-type': 'application/json'} : {},
    body: body && JSON.stringify(body),
  })
  const answer = await response.json().catch(() => ({}))
  if (answer.location) location.assign(answer.location)
  if (!response.ok) throw new Error(answer.message ?? 'Something went wrong. Please try again.')
  return answer
}

async function use() {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await ask('generate-authenticate-options'))
  const response = await navigator.credentials.get({publicKey})
  await ask('verify-authentication', {response})
}

/** @param {string} name */
async function add(name) {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(await ask('generate-register-options'))
  const response = await navigator.credentials.create({publicKey})
  await ask('verify-registration', {response, name})
}

/** @param {HTMLElement} element @param {() => Promise<void>} work */
async function attempt(element, work) {
  element.parentElement?.querySelector('[role=alert]')?.remove()
  try {
    await work()
    location.assign(element.dataset.next ?? '/')
  } catch (error) {
    const isCancelled = error instanceof DOMException && error.name === 'NotAllowedError'
    const said = document.createElement('p')
    said.className = 'alert'
    said.setAttribute('role', 'alert')
    said.textContent = isCancelled
      ? 'Nothing was done: it was cancelled, or took too long.'
      : /** @type {Error} */ (error).message
    element.before(said)
  }
}

if (typeof window.PublicKeyCredential?.parseRequestOptionsFromJSON === 'function')
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[data-passkey]'))) {
    element.hidden = false
    if (element instanceof HTMLFormElement)
      element.addEventListener('submit', event => {
        event.preventDefault()
        const name = String(new FormData(element).get('name') ?? '')
        attempt(element, () => add(name))
      })
    else element.addEventListener('click', () => attempt(element, use))
  }
