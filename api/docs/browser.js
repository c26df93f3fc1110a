// The search of the navigation: shows what has all of the words. Without it everything is shown.
const search = document.querySelector('[type=search]')
const parts = [...document.querySelectorAll('[data-text]')]
search.addEventListener('input', () => {
  const words = search.value.toLowerCase().split(/\s+/)
  for (const part of parts) part.hidden = !words.every(word => part.dataset.text.includes(word))
  for (const group of document.querySelectorAll('[data-group]'))
    group.hidden = !group.querySelector('[data-text]:not([hidden])')
})

// "Try it": the key is read from its field when a request is sent, and kept nowhere.
const key = document.querySelector('#key')
for (const form of document.querySelectorAll('.try form'))
  form.addEventListener('submit', async event => {
    event.preventDefault()
    const [button, answer] = form.querySelectorAll('button, pre')
    button.disabled = true
    answer.hidden = false
    answer.textContent = '…'
    try {
      const response = await fetch(...requestOf(form))
      const text = await response.text()
      answer.textContent = `${response.status}\n${pretty(text)}`
    } catch (error) {
      answer.textContent = `No answer: ${error.message}`
    }
    button.disabled = false
  })
window.addEventListener('pagehide', () => {
  if (key) key.value = ''
})

function requestOf({dataset, elements}) {
  const query = new URLSearchParams()
  const headers = key.value ? {authorization: `Bearer ${key.value}`} : {}
  let {path} = dataset
  for (const {name, value, dataset: of} of elements) {
    if (of.in === 'path') path = path.replace(`{${name}}`, encodeURIComponent(value))
    else if (of.in === 'query' && value) query.append(name, value)
    else if (of.in === 'header' && value) headers[name] = value
  }
  const body = elements.body?.value
  if (body) headers['content-type'] = 'application/json'
  // Beside this page: the service may be below a path.
  const url = new URL(`.${path}${query.size ? `?${query}` : ''}`, document.baseURI)
  return [url, {method: dataset.method, headers, ...(body && {body})}]
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}
