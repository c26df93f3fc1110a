// What every local Solana chain has in its first block, which is always the same.
import {createHash} from 'node:crypto'
import {getBase58Decoder} from '@solana/kit'
import {addressOfKey} from './keys.ts'

export const sha256 = (text: string) => createHash('sha256').update(text).digest()
const hashOf = (text: string) => getBase58Decoder().decode(sha256(text))

/** The settings know the network by it. */
export const genesisHash = hashOf('the local Solana chain of Sluice')
export const zeroHash = '11111111111111111111111111111111'

/** Everybody knows this key. */
export const faucetKey = sha256('the faucet of the local Solana chain')
export const faucet = addressOfKey(faucetKey)
export const faucetBalance = 4n * 10n ** 17n

/** The finalized block trails the newest by this many blocks, as on a network with TowerBFT. */
export const finalLag = 31

export {hashOf}
