// The seed that every address comes from: a BIP-39 phrase of 24 words in $SLUICE_HOME/custody/seed.json, encrypted with
// scrypt and AES-256-GCM. Promises: the complete file is on disk before its first address is used. An existing file is
// never overwritten, except by the same phrase under another passphrase, after that was read back from the disk. A
// wrong passphrase or a changed file is an error; decryption never returns garbage. Neither phrase nor passphrase is in
// any log or error. A seed that was not made by createSeed counts as one that may have been used.
import {createCipheriv, createDecipheriv, randomBytes, scrypt} from 'node:crypto'
import {
  appendFileSync,
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
} from 'node:fs'
import path from 'node:path'
import {promisify} from 'node:util'
import {generateMnemonic} from '@scure/bip39'
import {wordlist} from '@scure/bip39/wordlists/english.js'
import {z} from 'zod'
import {PermanentError} from '../../base/errors.ts'
import {makeDirectory, readIfThere, refuseOldHome} from '../../base/home.ts'
import {shownFile} from '../../base/variables.ts'
import {hasNode} from '../../chains/families.ts'
import type {Settings} from '../../chains/settings.ts'
import {askForPassphrase} from './passphrase-command.ts'

const bits = 256 // 24 words
const cost = {n: 2 ** 17, r: 8, p: 1} // 128 MiB and a third of a second
/** For tests, which open many seed files. */
export const testCost = 2 ** 12
const maxmem = 256 * 1024 * 1024

const hex = z.string().regex(/^([0-9a-f]{2})+$/)
const Header = z.object({
  version: z.literal(1),
  kdf: z.object({
    name: z.literal('scrypt'),
    n: z.union([z.literal(cost.n), z.literal(testCost)]),
    r: z.literal(cost.r),
    p: z.literal(cost.p),
    salt: hex,
  }),
  cipher: z.object({name: z.literal('aes-256-gcm'), iv: hex}),
})
const SeedFile = Header.extend({ciphertext: hex, tag: hex})
type SeedFile = z.infer<typeof SeedFile>

export const seedFile = (home: string) => path.join(home, 'custody', 'seed.json')
export const passphraseFile = (home: string) => path.join(home, 'custody', 'passphrase')
/** Exists from just before the seed is made until its addresses are in a database. No backup contains it. */
const newSeedFile = (home: string) => path.join(home, 'custody', 'seed.new')

/** Encrypts a phrase; the result is the content of a seed file. */
export async function encryptPhrase(phrase: string, passphrase: string, n = cost.n): Promise<string> {
  const header = Header.parse({
    version: 1,
    kdf: {name: 'scrypt', ...cost, n, salt: randomBytes(32).toString('hex')},
    cipher: {name: 'aes-256-gcm', iv: randomBytes(12).toString('hex')},
  })
  const cipher = createCipheriv('aes-256-gcm', await keyOf(header, passphrase), Buffer.from(header.cipher.iv, 'hex'))
  cipher.setAAD(Buffer.from(JSON.stringify(header)))
  const ciphertext = Buffer.concat([cipher.update(phrase, 'utf8'), cipher.final()]).toString('hex')
  const file: SeedFile = {...header, ciphertext, tag: cipher.getAuthTag().toString('hex')}
  return JSON.stringify(file, null, 2)
}

/** The phrase in the content of a seed file. `name` is the file's name in errors. */
export async function decryptPhrase(text: string, passphrase: string, name: string): Promise<string> {
  const read = SeedFile.safeParse(parseJson(text))
  if (!read.success) throw new PermanentError(`${name} is not a seed file, or was changed; restore it from a backup`)
  const {ciphertext, tag} = read.data
  const header = Header.parse(read.data)
  const key = await keyOf(header, passphrase)
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, Buffer.from(header.cipher.iv, 'hex'), {authTagLength: 16})
    decipher.setAAD(Buffer.from(JSON.stringify(header)))
    decipher.setAuthTag(Buffer.from(tag, 'hex'))
    return Buffer.concat([decipher.update(ciphertext, 'hex'), decipher.final()]).toString('utf8')
  } catch {
    throw new PermanentError(
      `${name} cannot be decrypted: the passphrase is wrong, or the file was changed; ` +
        'set CUSTODY_PASSPHRASE, CUSTODY_PASSPHRASE_FILE or CUSTODY_PASSPHRASE_COMMAND to the right one, or restore the file from a backup',
    )
  }
}

async function keyOf({kdf}: z.infer<typeof Header>, passphrase: string): Promise<Buffer> {
  const derive = promisify<string, Buffer, number, {N: number; r: number; p: number; maxmem: number}, Buffer>(scrypt)
  const {n, r, p, salt} = kdf
  return await derive(passphrase.normalize('NFKD'), Buffer.from(salt, 'hex'), 32, {N: n, r, p, maxmem})
}

/** Whether a seed was made here. */
export function hasSeed(home: string): boolean {
  refuseOldHome(home)
  return readIfThere(seedFile(home)) !== undefined
}

/** The phrase of this directory; undefined if none was made yet. */
export async function readSeed(home: string, passphrase: string): Promise<string | undefined> {
  refuseOldHome(home)
  const text = readIfThere(seedFile(home))
  return text === undefined ? undefined : await decryptPhrase(text, passphrase, seedFile(home))
}

/**
 * Makes the seed of this directory and returns its phrase. If two processes do this at once, both return the same
 * phrase.
 */
export async function createSeed(home: string, passphrase: string): Promise<string> {
  if (!hasSeed(home)) placeFile(newSeedFile(home), ['This seed was never used.'])
  await writeSeed(home, generateMnemonic(wordlist, bits), passphrase)
  return (await readSeed(home, passphrase))!
}

/**
 * Makes the seed of this directory from a phrase that was used before. Throws PermanentError if there is another seed
 * by now.
 */
export async function placeSeed(home: string, phrase: string, passphrase: string): Promise<void> {
  noteUse(home) // left by a killed process, which had not made its seed yet
  await writeSeed(home, phrase, passphrase)
  if ((await readSeed(home, passphrase)) !== phrase)
    throw new PermanentError(`${seedFile(home)} was made by another process at this moment; it stays as it is`)
}

/** Whether the seed was made here and never used: nobody can have been given an address of it. */
export function isNewSeed(home: string): boolean {
  return existsSync(newSeedFile(home))
}

/** Marks the seed as used: its addresses are in a database from now on, so it is not new for any other database. */
export function noteUse(home: string): void {
  rmSync(newSeedFile(home), {force: true})
}

/** Writes the seed file, unless there is one. */
export async function writeSeed(home: string, phrase: string, passphrase: string, n?: number): Promise<void> {
  placeFile(seedFile(home), [await encryptPhrase(phrase, passphrase, n)])
}

/**
 * Encrypts the seed of this directory with another passphrase. If killed at any moment, the file is complete and opens
 * with one of the two.
 */
export async function changePassphrase(home: string, before: string, after: string): Promise<void> {
  const phrase = await readSeed(home, before)
  if (phrase === undefined) throw new PermanentError(`there is no seed in ${home}; sluice custody init makes one`)
  const file = seedFile(home)
  const next = `${file}.next`
  rmSync(next, {force: true}) // left by a killed process
  writeDurably(next, [await encryptPhrase(phrase, after)])
  if ((await decryptPhrase(readFileSync(next, 'utf8'), after, next)) !== phrase)
    throw new Error(`${next} does not have what was written to it; the seed was not changed`)
  const {uid, gid} = statSync(file)
  if (process.getuid?.() === 0) chownSync(next, uid, gid) // custody may be another user than who calls this
  renameSync(next, file)
  syncDirectory(path.dirname(file))
}

/**
 * The passphrase: from the settings, from the program or the file that they name, or from the file beside the seed.
 * `mayMake` creates the file beside the seed; it is for local chains, whose coins are worth nothing. Undefined if there
 * is no passphrase.
 */
export function findPassphrase(settings: Settings, mayMake: boolean): string | undefined {
  const {home, custodyPassphrase, custodyPassphraseFile, custodyPassphraseCommand} = settings
  if (custodyPassphrase) return custodyPassphrase
  if (custodyPassphraseCommand) return askForPassphrase(custodyPassphraseCommand)
  if (custodyPassphraseFile) {
    const text = readIfThere(custodyPassphraseFile)?.trim()
    if (!text)
      throw new PermanentError(
        `CUSTODY_PASSPHRASE_FILE${shownFile(custodyPassphraseFile)}: the file is missing or empty; it must hold the passphrase of the seed, such as CUSTODY_PASSPHRASE_FILE=/run/secrets/custody_passphrase`,
      )
    return text
  }
  if (mayMake && !hasEncryptedSeed(home)) placeFile(passphraseFile(home), [randomBytes(24).toString('base64url')])
  return readIfThere(passphraseFile(home))?.trim()
}

/** Whether the settings say what the passphrase is. */
export const namesPassphrase = ({
  custodyPassphrase,
  custodyPassphraseFile,
  custodyPassphraseCommand,
}: Settings): boolean => Boolean(custodyPassphrase || custodyPassphraseFile || custodyPassphraseCommand)

/** Whether only local chains are followed. If so, custody may make a seed and a passphrase by itself. */
export function isLocal({localChains, chains}: Settings): boolean {
  return localChains.length > 0 && ![...chains.values()].some(hasNode)
}

function hasEncryptedSeed(home: string): boolean {
  return readIfThere(seedFile(home)) !== undefined
}

/** Writes a file of mode 0600 atomically and durably, unless there is one of this name. */
export function placeFile(file: string, lines: Iterable<string>): void {
  const directory = path.dirname(file)
  makeDirectory(directory)
  chmodSync(directory, 0o700)
  const temporary = `${file}.${process.pid}.tmp`
  writeDurably(temporary, lines)
  try {
    linkSync(temporary, file) // unlike a rename, this fails if the file exists
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    unlinkSync(temporary)
  }
  syncDirectory(directory)
}

/** Writes lines to a new file of mode 0600, and waits until they are on disk. */
export function writeDurably(file: string, lines: Iterable<string>): void {
  const descriptor = openSync(file, 'wx', 0o600)
  try {
    for (const line of lines) appendFileSync(descriptor, `${line}\n`)
    fsyncSync(descriptor)
  } finally {
    closeSync(descriptor)
  }
}

/** Waits until a directory's entries are on disk. */
export function syncDirectory(directory: string): void {
  const descriptor = openSync(directory, 'r')
  fsyncSync(descriptor)
  closeSync(descriptor)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
