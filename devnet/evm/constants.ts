// Constants of every local chain, for settings and tests. The keys are anvil's, and public.
import {getAddress} from 'viem'
import {mnemonicToAccount} from 'viem/accounts'

/** EIP-155 chain ids of the local chains; no public network has them. */
export const chainIds = {ETH: 1_337_001, POLYGON: 1_337_002} as const
export type LocalChainCode = keyof typeof chainIds

export const mnemonic = 'test test test test test test test test test test test junk'
/** The ten accounts that have anvil's ether, and for which the chain signs `eth_sendTransaction`. */
export const accounts = Array.from({length: 10}, (_, addressIndex) => mnemonicToAccount(mnemonic, {addressIndex}))
/** Pays all transactions sent on request; it has the whole supply of each token. */
export const faucet = accounts[0]!
/** Deploys the contracts in block 1 and does nothing else, which makes their addresses constants. */
export const deployer = accounts[9]!
export const usdcAddress = getAddress('0x700b6A60ce7EaaEA56F065753d8dcB9653dbAD35')
export const multisendAddress = getAddress('0xA15BB66138824a1c7167f5E85b957d04Dd34E468')

/** `safe` and `finalized` trail the head by this many blocks: one and two epochs of four slots. */
export const safeDepth = 4
export const finalizedDepth = 8
