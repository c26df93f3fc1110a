// The seed that every deposit address comes from. PROVISIONAL: until the signer of the next release takes over, the seed lies unencrypted in
// $SLUICE_HOME/seed, as a BIP-39 phrase that any standard wallet restores. For test networks only.
// Promises: the phrase is on disk, whole, before its first address is used; an existing file is never written over; the phrase is in no log
// and no error.
import {closeSync, fsyncSync, linkSync, mkdirSync, openSync, readFileSync, unlinkSync, writeSync} from 'node:fs'
import path from 'node:path'
import {secp256k1} from '@noble/curves/secp256k1.js'
import {HDKey} from '@scure/bip32'
import {generateMnemonic, mnemonicToSeed, validateMnemonic} from '@scure/bip39'
import {wordlist} from '@scure/bip39/wordlists/english.js'
import {bytesToHex} from 'viem'
import {publicKeyToAddress} from 'viem/accounts'
import {PermanentError} from '../service/errors.ts'

const bits = 256 // 24 words

/** The phrase of this directory; undefined if none was made yet. Throws PermanentError if the file holds no valid phrase. */
export function readSeed(home: string): string | undefined {
  const file = path.join(home, 'seed')
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  const phrase = text.trim().split(/\s+/).join(' ')
  if (validateMnemonic(phrase, wordlist)) return phrase
  throw new PermanentError(`${file} does not hold a BIP-39 phrase; restore it from a backup`)
}

/** Makes the seed of this directory and returns its phrase; of two processes that do this at once, both return the same. */
export function createSeed(home: string): string {
  mkdirSync(home, {recursive: true})
  const file = path.join(home, 'seed')
  const temporary = `${file}.${process.pid}.tmp`
  const descriptor = openSync(temporary, 'wx', 0o600)
  writeSync(descriptor, `${generateMnemonic(wordlist, bits)}\n`)
  fsyncSync(descriptor)
  closeSync(descriptor)
  try {
    linkSync(temporary, file) // unlike a rename, this fails where there is a file
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    unlinkSync(temporary)
  }
  syncDirectory(home)
  return readSeed(home)!
}

function syncDirectory(directory: string): void {
  const descriptor = openSync(directory, 'r')
  fsyncSync(descriptor)
  closeSync(descriptor)
}

/** The address at m/44'/60'/0'/0/index, in EIP-55 form. Holds no private key once it is made. */
export async function evmAddresses(phrase: string): Promise<(index: number) => string> {
  const branch = HDKey.fromMasterSeed(await mnemonicToSeed(phrase)).derive("m/44'/60'/0'/0")
  const publicBranch = HDKey.fromExtendedKey(branch.publicExtendedKey)
  branch.wipePrivateData()
  return index => {
    const {publicKey} = publicBranch.deriveChild(index)
    return publicKeyToAddress(bytesToHex(secp256k1.Point.fromBytes(publicKey!).toBytes(false)))
  }
}
