// What is the same on every local chain, so that settings and tests can name it. The keys are anvil's, known to all the world.
import {getAddress} from 'viem'
import {mnemonicToAccount} from 'viem/accounts'

/** EIP-155 chain ids of the local chains; no public network has them. */
export const chainIds = {ETH: 1_337_001, POLYGON: 1_337_002} as const
export type LocalChainCode = keyof typeof chainIds

export const MNEMONIC = 'test test test test test test test test test test test junk'
/** The ten accounts that anvil endows, and for which the chain signs `eth_sendTransaction`. */
export const accounts = Array.from({length: 10}, (_, addressIndex) => mnemonicToAccount(MNEMONIC, {addressIndex}))
/** Pays for everything that is sent on request; it holds all USDC. */
export const faucet = accounts[0]!
/** Deploys the contracts in block 1 and does nothing else, which makes their addresses constants. */
export const deployer = accounts[9]!
export const USDC_ADDRESS = getAddress('0x700b6A60ce7EaaEA56F065753d8dcB9653dbAD35')
export const MULTISEND_ADDRESS = getAddress('0xA15BB66138824a1c7167f5E85b957d04Dd34E468')
export const USDC_DECIMALS = 6

/** The second token of each chain, as an operator enters it: of another domain, and on POLYGON with other decimals. */
export const ownTokens = {
  ETH: {
    code: 'EURC',
    name: 'ETH-EURC',
    display_name: 'Euro Coin',
    contract: getAddress('0xb19b36b1456E65E3A6D514D3F715f204BD59f431'),
    decimals: 6,
    min_payout: '1',
    sweep_min: '1',
    sweep: {by: 'eip3009', domain: {name: 'Euro Coin', version: '1'}},
  },
  POLYGON: {
    code: 'JPYC',
    name: 'POLYGON-JPYC',
    display_name: 'JPY Coin',
    contract: getAddress('0xb19b36b1456E65E3A6D514D3F715f204BD59f431'),
    decimals: 18,
    min_payout: '100',
    sweep_min: '100',
    sweep: {by: 'eip3009', domain: {name: 'JPY Coin', version: '3'}},
  },
} as const satisfies Record<LocalChainCode, unknown>
export type OwnToken = (typeof ownTokens)[LocalChainCode]

/** What TestToken is deployed with, but for the holder of its supply. */
export function tokenArguments({code, decimals, sweep: {domain}}: OwnToken): [string, string, string, number] {
  return [domain.name, code, domain.version, decimals]
}

/** `safe` and `finalized` trail the head by so many blocks: one and two epochs of four slots. */
export const SAFE_DEPTH = 4
export const FINALIZED_DEPTH = 8
