import {mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {validateMnemonic} from '@scure/bip39'
import {wordlist} from '@scure/bip39/wordlists/english.js'
import {afterEach, beforeEach, expect, test} from 'vitest'
import {lockHome} from '../../base/home.ts'
import {readSettings} from '../../chains/settings.ts'
import {
  createSeed,
  findPassphrase,
  hasSeed,
  isNewSeed,
  noteUse,
  placeSeed,
  readSeed,
  seedFile,
  testCost,
  writeSeed,
} from './seed.ts'

const passphrase = 'correct horse'
const junk = 'test test test test test test test test test test test junk'

let home: string
beforeEach(() => {
  home = path.join(mkdtempSync(path.join(tmpdir(), 'sluice-seed-')), 'home')
})
afterEach(() => rmSync(path.dirname(home), {recursive: true}))

test('a new seed is an encrypted phrase of 24 words in a file that only its owner may read, and is never overwritten', async () => {
  expect(await readSeed(home, passphrase)).toBeUndefined()
  const phrase = await createSeed(home, passphrase)
  expect(phrase.split(' ')).toHaveLength(24)
  expect(validateMnemonic(phrase, wordlist)).toBe(true)
  expect(statSync(seedFile(home)).mode & 0o777).toBe(0o600)
  expect(statSync(path.dirname(seedFile(home))).mode & 0o777).toBe(0o700)
  expect(readdirSync(path.join(home, 'custody'))).toEqual(['seed.json', 'seed.new'])
  const text = readFileSync(seedFile(home), 'utf8')
  const hex = expect.stringMatching(/^[0-9a-f]+$/)
  expect(JSON.parse(text)).toEqual({
    version: 1,
    kdf: {name: 'scrypt', n: 131072, r: 8, p: 1, salt: hex},
    cipher: {name: 'aes-256-gcm', iv: hex},
    ciphertext: hex,
    tag: hex,
  })
  expect(await createSeed(home, passphrase)).toBe(phrase)
  expect(readFileSync(seedFile(home), 'utf8')).toBe(text)
})

test('a seed is new from its creation until its first use; a seed from elsewhere is never new', async () => {
  await writeSeed(home, junk, passphrase, testCost)
  expect(isNewSeed(home)).toBe(false)
  await createSeed(home, passphrase) // there is one
  expect(isNewSeed(home)).toBe(false)
  rmSync(seedFile(home))
  await createSeed(home, passphrase)
  expect(isNewSeed(home)).toBe(true)
  noteUse(home)
  expect(isNewSeed(home)).toBe(false)
})

test('a seed that is placed counts as used, whatever a killed process left, and replaces none', async () => {
  await createSeed(home, passphrase)
  rmSync(seedFile(home))
  expect(isNewSeed(home)).toBe(true)
  await placeSeed(home, junk, passphrase)
  expect([isNewSeed(home), await readSeed(home, passphrase)]).toEqual([false, junk])
  await expect(placeSeed(home, junk.replace('junk', 'zoo'), passphrase)).rejects.toThrow(/it stays as it is$/)
  expect(await readSeed(home, passphrase)).toBe(junk)
})

test('a wrong passphrase and a changed file are reported, without showing the phrase', async () => {
  await writeSeed(home, junk, passphrase, testCost)
  const wrong = await readSeed(home, 'correct house').catch(error => error.message)
  expect(wrong).toMatch(/seed\.json cannot be decrypted: the passphrase is wrong, or the file was changed/)
  const good = JSON.parse(readFileSync(seedFile(home), 'utf8'))
  const flipped = (hex: string) => (hex[0] === '0' ? '1' : '0') + hex.slice(1)
  const changed = [
    {...good, ciphertext: flipped(good.ciphertext)},
    {...good, tag: flipped(good.tag)},
    {...good, tag: good.tag.slice(0, 8)},
    {...good, kdf: {...good.kdf, salt: flipped(good.kdf.salt)}},
    {...good, cipher: {...good.cipher, iv: flipped(good.cipher.iv)}},
    {...good, kdf: {...good.kdf, n: 2 ** 17}},
    {...good, kdf: {...good.kdf, n: 1024}},
    {...good, version: 2},
    {},
  ]
  for (const file of changed) {
    writeFileSync(seedFile(home), JSON.stringify(file))
    const message = await readSeed(home, passphrase).catch(error => error.message)
    expect(message).toMatch(/seed\.json (cannot be decrypted|is not a seed file)/)
    expect(message).not.toContain('junk')
  }
  writeFileSync(seedFile(home), JSON.stringify(good).slice(0, -9))
  await expect(readSeed(home, passphrase)).rejects.toThrow(
    /seed\.json is not a seed file, or was changed; restore it from a backup/,
  )
}, 60_000)

test('a home with a plaintext seed from before the first release is refused, and nothing in it is changed', async () => {
  mkdirSync(home, {recursive: true})
  const plaintext = path.join(home, 'seed')
  writeFileSync(plaintext, junk)
  const refusal =
    /seed is the seed of a version of Sluice before its first release.*set SLUICE_HOME to a new directory$/
  expect(() => hasSeed(home)).toThrow(refusal)
  await expect(readSeed(home, passphrase)).rejects.toThrow(refusal)
  await expect(createSeed(home, passphrase)).rejects.toThrow(refusal)
  await expect(lockHome(home)).rejects.toThrow(refusal)
  expect(readdirSync(home)).toEqual(['seed'])
  expect(readFileSync(plaintext, 'utf8')).toBe(junk)
})

test('the passphrase comes from the variable, else from the named file, else from the file made for local chains', () => {
  const given = path.join(path.dirname(home), 'passphrase')
  writeFileSync(given, 'from a file\n')
  const settings = (more: Record<string, string>) => readSettings({SLUICE_HOME: home, ...more})
  expect(findPassphrase(settings({CUSTODY_PASSPHRASE: passphrase, CUSTODY_PASSPHRASE_FILE: given}), true)).toBe(
    passphrase,
  )
  expect(findPassphrase(settings({CUSTODY_PASSPHRASE_FILE: given}), true)).toBe('from a file')
  expect(() => findPassphrase(settings({CUSTODY_PASSPHRASE_FILE: `${given}.not`}), true)).toThrow(
    /passphrase\.not\): the file is missing or empty/,
  )
  const inPlaceOfFile = settings({CUSTODY_PASSPHRASE_FILE: 'six words that nobody guesses, ever'})
  expect(() => findPassphrase(inPlaceOfFile, true)).toThrow(/^CUSTODY_PASSPHRASE_FILE: the file is missing or empty/)
  expect(findPassphrase(settings({}), false)).toBeUndefined()
  const made = findPassphrase(settings({}), true)
  expect(made).toHaveLength(32)
  expect(findPassphrase(settings({}), true)).toBe(made)
})

test('a passphrase comes from a program: no shell reads its command, and what it prints is in no error', () => {
  const program = (text: string) => {
    const file = path.join(path.dirname(home), 'program')
    writeFileSync(file, `#!/bin/sh\n${text}\n`, {mode: 0o755})
    return file
  }
  const asked = (command: string) =>
    findPassphrase(readSettings({SLUICE_HOME: home, CUSTODY_PASSPHRASE_COMMAND: command}), false)
  expect(asked(`${program('echo "$1 of $2"')} one $(id)`)).toBe('one of $(id)')
  expect(asked(`${program('echo "  kept apart  "')}`)).toBe('kept apart')
  for (const [text, why] of [
    ['echo SECRET; echo SECRET >&2; exit 3', 'ended with exit code 3'],
    ['echo SECRET; kill -9 $$', 'ended with SIGKILL'],
    ['echo SECRET; echo SECRET', 'printed 2 lines'],
    ['true', 'printed nothing'],
    ['while :; do echo SECRETSECRET; done', 'more than 4096 bytes'],
  ] as const) {
    const failed = () => asked(program(text))
    expect(failed).toThrow(why)
    expect(failed).not.toThrow('SECRET')
  }
  expect(() => asked('/no/such/program')).toThrow('cannot be started (ENOENT); the first word must be its whole path')
  expect(() => readSettings({CUSTODY_PASSPHRASE_COMMAND: 'pass show it'})).toThrow(
    'CUSTODY_PASSPHRASE_COMMAND: must be the whole path',
  )
})
