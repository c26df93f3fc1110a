// What people paste into the search, as the texts under which it may be found. Promises: what was typed is looked for
// first, as it is; every text is one that the database can compare with an index.

/** What stands for a thing on its own, wherever it is in what was pasted: the longest first. */
const known = [
  /\/pay\/([\w-]{32})/, // the page of a payment request
  /\b(?:dep|pay|usr|whe|dlv|evt|evt_test|key)_[0-9a-f]{32}\b/i,
  /\b(?:0x)?[0-9a-f]{64}\b/i, // a transaction
  /\b[1-9A-HJ-NP-Za-km-z]{80,90}\b/, // of Solana
  /\b0x[0-9a-f]{40}\b/i,
  /\b(?:bc|tb|bcrt)1[0-9a-z]{20,80}\b/i,
  /\b[1-9A-HJ-NP-Za-km-z]{32,44}\b/, // an address of Tron, Solana or Bitcoin
]
const mostLetters = 255
const mostTyped = 12_000
/** Amounts, and what pages shorten, are no longer. */
const mostShort = 100

/** At most eight, without what cannot be looked for. */
export function searched(all: string): string[] {
  const typed = all.slice(0, mostTyped)
  // Nothing that is looked for has a break in it, and none has what cannot be seen.
  const plain = typed.replace(/[\u200b-\u200f\u2028-\u202f\u2060-\u2069\ufeff\p{Cc}]/gu, ' ').trim()
  const bare = stripped(plain)
  const joined = bare.replace(/\s+/g, '')
  const isShort = bare.length <= mostShort
  const texts = [plain, bare, isShort ? amountIn(bare) : undefined, isShort ? shortenedIn(bare) : undefined]
  for (const text of [plain, joined]) {
    const found = known.map(pattern => pattern.exec(text)).find(match => match !== null)
    if (found) texts.push(found[1] ?? found[0])
  }
  const others = texts.flatMap(text => (text === undefined ? [] : spellingsOf(text)))
  return [...new Set([...texts, ...others])]
    .filter(text => text !== undefined && text !== '' && text.length <= mostLetters)
    .slice(0, 8) as string[]
}

/** Without quotation marks, brackets and full stops around it. */
function stripped(text: string): string {
  let [first, end] = [0, text.length]
  while (first < end && '"\'«“„(<'.includes(text[first]!)) first++
  while (end > first && '"\'»”)>.,;:'.includes(text[end - 1]!)) end--
  return text.slice(first, end)
}

/** Transactions and addresses have 0x on some chains alone; ids and most references are in lower case. */
function spellingsOf(text: string): string[] {
  const lower = text.toLowerCase()
  if (/^0x[0-9a-f]{8,64}$/.test(lower)) return [lower.slice(2)]
  if (/^[0-9a-f]{40}$|^[0-9a-f]{64}$/.test(lower)) return [`0x${lower}`]
  return [lower]
}

/** 17USDC, USDC 17, 0,25 and 30,000 JPYC as 17 USDC, 0.25 and 30000 JPYC; undefined if it is no amount. */
function amountIn(text: string): string | undefined {
  const [, before, digits, after] =
    /^([a-z]\w{1,19})?\s*(\d[\d,.\s']*?)\s*(?:on\s+)?([a-z][\w-]{1,19})?$/i.exec(text) ?? []
  if (digits === undefined || (before !== undefined && after !== undefined)) return undefined
  const number = numberIn(digits.replace(/[\s']/g, ''))
  const token = (before ?? after)?.split('-').at(-1) // ETH-USDC is named so in lists
  return number && (token === undefined ? number : `${number} ${token.toUpperCase()}`)
}

/** A comma is one of thousands if three digits follow each, and else that of a decimal. */
function numberIn(digits: string): string | undefined {
  const isGrouped = /^\d{1,3}(,\d{3})+(\.\d+)?$/.test(digits)
  const number = isGrouped ? digits.replaceAll(',', '') : digits.replace(',', '.')
  return /^\d+(\.\d+)?$/.test(number) ? number : undefined
}

/** 0x1110…6e45, as pages shorten what is long, with either way of writing the dots. */
function shortenedIn(text: string): string | undefined {
  const [, first, last] = /^(\w{6,80})\s?(?:…|\.{2,3})\s?(\w{4,80})$/.exec(text) ?? []
  return first && `${first}…${last}`
}
