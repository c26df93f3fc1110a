// The 24 words of a seed, as people enter them: from paper at a terminal, where nothing is shown, or from a file.
// Promises: only words of the English list of BIP-39 with the right checksum are a phrase. An error says at which place
// a word is wrong, and repeats none: it may stay on a screen or in a log.
import {readFileSync} from 'node:fs'
import {createInterface} from 'node:readline'
import {Writable} from 'node:stream'
import {text} from 'node:stream/consumers'
import {validateMnemonic} from '@scure/bip39'
import {wordlist} from '@scure/bip39/wordlists/english.js'
import {PermanentError} from '../../base/errors.ts'

const count = 24

/**
 * The phrase in what was entered: case, spaces and line breaks do not matter, nor do numbers before the words, as in a
 * list.
 */
export function phraseIn(entered: string): string {
  const words = wordsIn(entered)
  if (words.length !== count)
    throw new PermanentError(`there are ${words.length} words, and a seed has ${count}; no seed was made`)
  const wrong = words.findIndex(word => !wordlist.includes(word))
  if (wrong !== -1) throw new PermanentError(`word ${wrong + 1} is not in the English list of BIP-39; no seed was made`)
  const phrase = words.join(' ')
  if (!validateMnemonic(phrase, wordlist))
    throw new PermanentError('the checksum is wrong: a word is another one, or not in its place; no seed was made')
  return phrase
}

function wordsIn(entered: string): string[] {
  const words = entered.normalize('NFKD').toLowerCase().split(/\s+/)
  return words.map(word => word.replace(/^\d+[.):]?/, '')).filter(word => word !== '')
}

/**
 * What is entered: the content of the file; without one, of standard input. At a terminal it asks, and shows nothing of
 * what is typed.
 */
export async function readWords(file: string | undefined): Promise<string> {
  if (file === undefined) return process.stdin.isTTY ? await prompt() : await text(process.stdin)
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new PermanentError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code}); no seed was made`)
  }
}

/** Resolves once there are enough words, on however many lines, or after an empty line. */
async function prompt(): Promise<string> {
  process.stderr.write(`Type the ${count} words, on one line or several; they are not shown: `)
  const nowhere = new Writable({write: (_chunk, _encoding, done) => done()})
  const lines = createInterface({input: process.stdin, output: nowhere, terminal: true, historySize: 0})
  let entered = ''
  try {
    return await new Promise((resolve, reject) => {
      lines.on('line', line => {
        entered += `${line}\n`
        if (line.trim() === '' || wordsIn(entered).length >= count) resolve(entered)
      })
      lines.once('SIGINT', () => lines.close())
      lines.once('close', () => reject(new PermanentError('it was interrupted; no seed was made')))
    })
  } finally {
    lines.close()
    process.stderr.write('\n')
  }
}
