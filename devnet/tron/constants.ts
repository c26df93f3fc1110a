// What every local Tron chain has in its first blocks, which are always the same, and the parameters of its network.
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

const keyNamed = (name: string) => sha256(Buffer.from(`the ${name} of the local Tron chain`))
const addressOfKey = (key: Uint8Array) => addressOf(keyBytes(publicKeyOf(key)))

/** Everybody knows these keys. The faucet has TRX, and the whole supply of USDT. */
export const faucetKey = keyNamed('faucet')
export const faucet = addressOfKey(faucetKey)
export const faucetBalance = 10n ** 15n
/** Creates the contracts in block 1; USDT obeys it. */
export const issuerKey = keyNamed('issuer')
export const issuer = addressOfKey(issuerKey)
export const issuerBalance = 10n ** 12n

/** The solidified block trails the head by this many blocks, as on a network whose 27 witnesses are all there. */
export const solidLag = 18

/** The contracts that block 1 creates (contracts.ts). */
export const contracts = {
  /** disperse(address[],uint256[]): pays each address, out of the value that comes with the call. */
  disperse: 'TMeMfksx1rLFoT4ACF5juBaDz3RZRXwopu',
  /** transfer(address,uint256): a TRC-20 token that nobody knows; everybody has enough of it. */
  token: 'TEaduQs3iTfSSfSX36RTSbTK2d7AnBvvzT',
  usdt: 'TJmWZaD2LC9nb59B7sWRLHW5FjhBwhXyMC',
}

/** The tokens that payments may be in besides TRX. */
export const tokens: readonly {token: string; decimals: number; contract: string}[] = [
  {token: 'USDT', decimals: 6, contract: contracts.usdt},
]

/** As wallet/getchainparameters names them. */
export const parameters = {
  getCreateAccountFee: 100_000n,
  getTransactionFee: 1000n,
  getCreateNewAccountFeeInSystemContract: 1_000_000n,
  getCreateNewAccountBandwidthRate: 1n,
  getEnergyFee: 100n,
  getMemoFee: 1_000_000n,
  getFreeNetLimit: 600n,
  getMaxFeeLimit: 15_000_000_000n,
  getTotalNetLimit: 43_200_000_000n,
  getTotalEnergyCurrentLimit: 180_000_000_000n,
  getUnfreezeDelayDays: 14n,
}

/** What others have staked, in TRX: the resources of a chain are shared among all who stake. */
export const stakedByOthers = {bandwidth: 27_000_000_000n, energy: 19_000_000_000n}
