import {expect, test} from 'vitest'
import {phraseIn, readWords} from './words.ts'

const phrase =
  'legal winner thank year wave sausage worth useful legal winner thank year wave sausage worth useful legal winner thank year wave sausage worth title'
const words = phrase.split(' ')

/** The message of the error that this is refused with. */
function refused(entered: string): string {
  try {
    phraseIn(entered)
  } catch (error) {
    return (error as Error).message
  }
  throw new Error('it was accepted')
}

test.each([
  ['in a line', phrase],
  ['in capitals', phrase.toUpperCase()],
  ['with spaces and line breaks', `\n  ${words.join(' \t\r\n  ')} \n\n`],
  ['as a numbered list', words.map((word, n) => `${n + 1}. ${word}`).join('\n')],
  ['numbered without a space', words.map((word, n) => `${n + 1}.${word}`).join(' ')],
])('a phrase is read %s', (_, entered) => {
  expect(phraseIn(entered)).toBe(phrase)
})

test('a word that is not in the list is named by its place, and no word is repeated', () => {
  const message = refused(words.with(6, 'abandom').join(' '))
  expect(message).toBe('word 7 is not in the English list of BIP-39; no seed was made')
})

test('fewer words, more words, another word, and words in another order are refused, and no word is repeated', () => {
  const [first, second, ...rest] = words as [string, string, ...string[]]
  const messages = ['', rest.join(' '), `${phrase} ${first}`].map(refused)
  expect(messages).toEqual([0, 22, 25].map(count => `there are ${count} words, and a seed has 24; no seed was made`))
  messages.push(...[words.with(5, 'zoo'), [second, first, ...rest]].map(wrong => refused(wrong.join(' '))))
  for (const message of messages.slice(3)) expect(message).toMatch(/^the checksum is wrong: /)
  for (const message of messages) for (const word of words) expect(message).not.toContain(word)
})

test('a file that is not there is named', async () => {
  await expect(readWords('/nowhere/words')).rejects.toThrow(/^\/nowhere\/words cannot be read \(ENOENT\)/)
})
