// The search of the navigation: shows what has all of the words. Without it everything is shown.
const search = document.querySelector('input')
const parts = [...document.querySelectorAll('[data-text]')]
search.addEventListener('input', () => {
  const words = search.value.toLowerCase().split(/\s+/)
  for (const part of parts) part.hidden = !words.every(word => part.dataset.text.includes(word))
  for (const group of document.querySelectorAll('[data-group]'))
    group.hidden = !group.querySelector('[data-text]:not([hidden])')
})
