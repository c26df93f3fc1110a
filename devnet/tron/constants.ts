// What every local Tron chain has in its first block, which is always the same.
import {addressOf, keyBytes, sha256} from '../../chains/tron/address.ts'
import {emptyRoot, type Header} from '../../chains/tron/block.ts'
import {publicKeyOf} from './keys.ts'

/** Its first block has no time, so that its id, by which the settings know the network, is a constant. */
export const genesis: Header = {
  height: 0,
  parentHash: sha256(Buffer.from('the local Tron chain of Sluice')).toString('hex'),
  time: 0,
  txTrieRoot: emptyRoot,
  witness: '',
  witnessId: 0n,
  version: 0n,
  accountStateRoot: '',
}

/** Everybody knows these keys. */
export const faucetKey = sha256(Buffer.from('the faucet of the local Tron chain'))
export const faucet = addressOf(keyBytes(publicKeyOf(faucetKey)))
export const faucetBalance = 10n ** 15n

/** The solidified block trails the head by this many blocks, as on a network whose 27 witnesses are all there. */
export const solidLag = 18

const contractAddress = (name: string) =>
  addressOf(Uint8Array.of(0x41, ...sha256(Buffer.from(`contract ${name}`)).subarray(0, 20)))

/** Stand-ins for contracts (contracts.ts). */
export const contracts = {
  /** disperse(address[],uint256[]): pays each address, out of the value that comes with the call. */
  disperse: contractAddress('disperse'),
  /** transfer(address,uint256): a TRC-20 token that nobody knows; everybody has enough of it. */
  token: contractAddress('token'),
}

export const isContractAddress = (address: string): boolean => Object.values(contracts).includes(address)
