// Every chain and asset that Sluice knows, as data. Promises: no I/O, no settings. Values that differ between a public
// and a local network (RPC address, chain id, token contracts) are in the settings of the family (evm/settings.ts, for
// example).

/** The chain codes of the API contract. Each has an entry in `chains`. */
export const chainCodes = ['ETH', 'SOL', 'TRON', 'BTC', 'POLYGON'] as const
export type ChainCode = (typeof chainCodes)[number]

export interface Asset {
  token: string
  /** Name of the asset in the payment-request endpoints. */
  name: string
  displayName: string
  decimals: number
  /**
   * A token's contract: here on the public test network, in settings on the network that is followed. Absent if it is
   * not known there.
   */
  contract?: string
  /** The smallest net amount of a payout that the chain allows, in base units; absent: 1. */
  minPayout?: bigint
  /** The default of the setting *_MIN_PAYOUT, in base units: as a rule more than the network fee of a payout. */
  usualMinPayout: bigint
  /**
   * The default of the setting *_SWEEP_MIN, in base units: about what its dearest way of sweeping costs at usual
   * prices.
   */
  usualSweepMin: bigint
  /** The smallest amount that an address without coins can receive, in base units; absent: 1. */
  smallestPayment?: bigint
  /** More than there will ever be, or than the chain can count, in whole coins; absent where that is not known. */
  mostCoins?: bigint
  /** The defaults of *_PAYOUT_LIMIT and *_DAILY_LIMIT. */
  usualPayoutLimit?: bigint
  usualDailyLimit?: bigint
  /** An operator added it to the running service (sluice token add): no setting names it. */
  isAdded?: true
}

/** A token of an ERC-20 contract. It is paid with the contract's transfer(address,uint256). */
export interface Erc20 extends Asset {
  sweep: Sweep
}

/**
 * A token of a TRC-20 contract: ERC-20 on Tron. Each address sweeps it itself, with coins that the treasury sends it.
 */
export interface Trc20 extends Asset {
  sweep: {by: 'fund'}
}

/** A token of Solana: a mint. The treasury pays for its sweeps, which the address signs beside it. */
export interface SplToken extends Asset {
  sweep: ByTreasury
}

export interface ByTreasury {
  by: 'treasury'
  /** Whose mint it is: the Token program's, or Token-2022's. */
  program: 'token' | 'token-2022'
  /** The extensions of the mint that the operator accepted by name. */
  accepts: string[]
}

/**
 * How a token leaves an address that has no coins for fees. eip3009: the treasury takes it with what the address
 * signed. fund: the treasury sends the address the gas for a transfer of its own (chains/evm/README.md), which every
 * token knows.
 */
export type Sweep = ByAuthorisation | {by: 'fund'}

/**
 * The address signs an authorisation (EIP-712), with which only the treasury can take it (receiveWithAuthorization).
 */
export interface ByAuthorisation {
  by: 'eip3009'
  /** Signatures for the contract are bound to this domain, besides its address and the chain. */
  domain: Domain
  /** By chain id: the domain on networks where the contract has another one. */
  domainOn?: Record<number, Domain>
}

export interface Domain {
  name: string
  version: string
}

interface CommonChain {
  code: ChainCode
  displayName: string
  /** The native coin, then the tokens. In settings, they include the operator's own tokens. */
  assets: [native: Asset, ...tokens: Asset[]]
  /** If the head does not move for this long, the node counts as stalled. */
  stallTimeoutMs: number
  /** How often a source without notifications is polled for its head, and every source for its final block. */
  pollIntervalMs: number
  /** The default limit of network fees in a day, in whole coins. */
  feeBudget: string
}

export interface EvmChain extends CommonChain {
  /** Chains of one family share their addresses: a key controls the same address on each of them. */
  family: 'evm'
  assets: [native: Asset, ...tokens: Erc20[]]
  /** EIP-155 chain id of the public test network. */
  chainId: number
  /** Where people see a transaction of that network, with {txid} in its place. */
  explorer: string
  /** The default limits of what sweeping a token, and a payment, may cost, in whole coins. */
  tokenSweepFee: string
  maxPaymentFee: string
  /** The smallest priority fee that nodes of the network take, in wei per unit of gas. */
  leastTip: bigint
  /** How many blocks a reorganisation may replace without a rewind of the store. */
  rollbackHorizonBlocks: number
}

export interface BitcoinChain extends CommonChain {
  family: 'bitcoin'
  networks: Record<BitcoinNetwork, BitcoinNetworkData>
}

export interface TronChain extends CommonChain {
  family: 'tron'
  assets: [native: Asset, ...tokens: Trc20[]]
  networks: Record<TronNetwork, TronNetworkData>
}

export interface SolanaChain extends CommonChain {
  family: 'solana'
  assets: [native: Asset, ...tokens: SplToken[]]
  networks: Record<SolanaNetwork, SolanaNetworkData>
}

export type Chain = EvmChain | BitcoinChain | TronChain | SolanaChain
/** Each family has a line in every families.ts. */
export type Family = Chain['family']

export const bitcoinNetworks = ['testnet4', 'signet', 'regtest'] as const
export type BitcoinNetwork = (typeof bitcoinNetworks)[number]

/** The data of one Bitcoin network. */
export interface BitcoinNetworkData {
  /** Hash of the first block. */
  genesis: string
  /** The highest target that a block may have, in compact form. It sets the least work of a header. */
  easiestBits: number
  /** Human-readable part of its segwit addresses (BIP-173). */
  hrp: string
  /** Version bytes of its base58 addresses. */
  pubKeyHash: number
  scriptHash: number
  /** A block is final when it and the blocks above it are at least this many. */
  confirmations: number
  /** Where people see a transaction, with {txid} in its place; absent for a network of one machine. */
  explorer?: string
}

export const tronNetworks = ['nile', 'shasta', 'local'] as const
export type TronNetwork = (typeof tronNetworks)[number]

/** The data of one Tron network. */
export interface TronNetworkData {
  /** The last four bytes of the id of its first block: its reference in CAIP-2. */
  reference: string
  /** Public nodes count requests. */
  pollIntervalMs: number
  /** Between the slots of blocks. */
  slotMs: number
  /** As of BitcoinNetworkData. */
  explorer?: string
}

export const solanaNetworks = ['devnet', 'testnet', 'local'] as const
export type SolanaNetwork = (typeof solanaNetworks)[number]

/** The data of one Solana network. */
export interface SolanaNetworkData {
  /** Hash of the first block. Its first 32 letters are its reference in CAIP-2. */
  genesis: string
  /** Public nodes count requests. */
  pollIntervalMs: number
  /** As of BitcoinNetworkData. */
  explorer?: string
}

const testAddresses = {hrp: 'tb', pubKeyHash: 0x6f, scriptHash: 0xc4}

/** A new recipient's account costs the operator 0.002 SOL, which are 0.4 dollars with SOL at 200. */
const splToken = {
  sweep: {by: 'treasury', program: 'token', accepts: []},
  usualMinPayout: 1_000_000n,
  usualSweepMin: 100_000n, // a sweep costs two signatures, 0.002 dollars
} satisfies Partial<SplToken>

export const chains: Chain[] = [
  {
    code: 'ETH',
    displayName: 'Ethereum',
    family: 'evm',
    chainId: 11_155_111, // Sepolia
    explorer: 'https://sepolia.etherscan.io/tx/{txid}',
    assets: [
      {
        token: 'ETH',
        name: 'ETH',
        displayName: 'Ether',
        decimals: 18,
        mostCoins: 1_000_000_000n,
        usualMinPayout: 10n ** 15n, // 21,000 gas at 47 gwei
        usualSweepMin: 10n ** 15n,
      },
      {
        token: 'USDC',
        name: 'ETH-USDC',
        displayName: 'USD Coin',
        decimals: 6,
        mostCoins: 1_000_000_000_000n,
        contract: '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
        sweep: {
          by: 'eip3009',
          domain: {name: 'USDC', version: '2'},
          domainOn: {1: {name: 'USD Coin', version: '2'}},
        },
        usualMinPayout: 1_000_000n, // 65,000 gas at 5 gwei, with ether at 3,000 dollars
        usualSweepMin: 1_000_000n,
      },
    ],
    rollbackHorizonBlocks: 75,
    feeBudget: '0.5',
    tokenSweepFee: '0.01',
    maxPaymentFee: '0.05',
    leastTip: 1_000_000n, // geth's --miner.gasprice
    stallTimeoutMs: 180_000,
    pollIntervalMs: 1000,
  },
  {
    code: 'POLYGON',
    displayName: 'Polygon',
    family: 'evm',
    chainId: 80_002, // Amoy
    explorer: 'https://amoy.polygonscan.com/tx/{txid}',
    assets: [
      {
        token: 'POL',
        name: 'POL',
        displayName: 'Polygon Ecosystem Token',
        decimals: 18,
        mostCoins: 100_000_000_000n,
        usualMinPayout: 10n ** 16n,
        usualSweepMin: 10n ** 16n, // 21,000 gas at 476 gwei
      },
      {
        token: 'USDC',
        name: 'POLYGON-USDC',
        displayName: 'USD Coin',
        decimals: 6,
        mostCoins: 1_000_000_000_000n,
        contract: '0x41E94Eb019C0762f9Bfcf9Fb1E58725BfB0e7582',
        sweep: {
          by: 'eip3009',
          domain: {name: 'USDC', version: '2'},
          domainOn: {137: {name: 'USD Coin', version: '2'}},
        },
        usualMinPayout: 100_000n, // 65,000 gas at 500 gwei, with POL at a dollar
        usualSweepMin: 100_000n,
      },
    ],
    rollbackHorizonBlocks: 128,
    feeBudget: '50',
    tokenSweepFee: '0.1',
    maxPaymentFee: '1',
    leastTip: 25_000_000_000n, // bor's --miner.gasprice
    stallTimeoutMs: 60_000,
    pollIntervalMs: 1000,
  },
  {
    code: 'BTC',
    displayName: 'Bitcoin',
    family: 'bitcoin',
    networks: {
      testnet4: {
        genesis: '00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043',
        easiestBits: 0x1d00ffff,
        ...testAddresses,
        confirmations: 6,
        explorer: 'https://mempool.space/testnet4/tx/{txid}',
      },
      signet: {
        genesis: '00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6',
        easiestBits: 0x1e0377ae,
        ...testAddresses,
        confirmations: 2,
        explorer: 'https://mempool.space/signet/tx/{txid}',
      },
      regtest: {
        genesis: '0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206',
        easiestBits: 0x207fffff,
        ...testAddresses,
        hrp: 'bcrt',
        confirmations: 2,
      },
    },
    assets: [
      {
        token: 'BTC',
        name: 'BTC',
        displayName: 'Bitcoin',
        decimals: 8,
        minPayout: 546n, // nodes do not relay smaller outputs (dust), for any kind of address
        smallestPayment: 294n, // the same for the kind of ours
        mostCoins: 21_000_000n,
        usualMinPayout: 5_000n,
        usualSweepMin: 1_000n, // an input (68 virtual bytes) at 15 sat/vB
      },
    ],
    feeBudget: '0.05',
    stallTimeoutMs: 7_200_000, // blocks that are an hour apart are normal
    pollIntervalMs: 1000,
  },
  {
    code: 'TRON',
    displayName: 'Tron',
    family: 'tron',
    networks: {
      nile: {
        reference: '0xcd8690dc',
        pollIntervalMs: 5000,
        slotMs: 3000,
        explorer: 'https://nile.tronscan.org/#/transaction/{txid}',
      },
      shasta: {
        reference: '0x94a9059e',
        pollIntervalMs: 5000,
        slotMs: 3000,
        explorer: 'https://shasta.tronscan.org/#/transaction/{txid}',
      },
      local: {reference: '0x26eb2a8a', pollIntervalMs: 500, slotMs: 1000},
    },
    assets: [
      {
        token: 'TRX',
        name: 'TRX',
        displayName: 'TRON',
        decimals: 6,
        mostCoins: 1_000_000_000_000n,
        usualMinPayout: 2_000_000n, // a new account costs 1.1
        usualSweepMin: 900_000n, // three times the bytes of a sweep, if they cost the most that TRON_MAX_SWEEP_FEE allows
      },
      {
        token: 'USDT',
        name: 'TRON-USDT',
        displayName: 'Tether USD',
        decimals: 6,
        mostCoins: 1_000_000_000_000n,
        contract: 'TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf',
        sweep: {by: 'fund'},
        usualMinPayout: 5_000_000n, // 130,000 energy to a new holder at 100 sun, with TRX at 0.3 dollars
        usualSweepMin: 5_000_000n, // the same, and 1.1 TRX for an address without an account
      },
    ],
    feeBudget: '2000',
    stallTimeoutMs: 60_000,
    pollIntervalMs: 5000,
  },
  {
    code: 'SOL',
    displayName: 'Solana',
    family: 'solana',
    networks: {
      devnet: {
        genesis: 'EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG',
        pollIntervalMs: 1000,
        explorer: 'https://explorer.solana.com/tx/{txid}?cluster=devnet',
      },
      testnet: {
        genesis: '4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY',
        pollIntervalMs: 1000,
        explorer: 'https://explorer.solana.com/tx/{txid}?cluster=testnet',
      },
      local: {genesis: '63GNnKyHf6S23Hi56PAG7mmM5QvTp8A7VkfzvXwBYATP', pollIntervalMs: 400},
    },
    assets: [
      {
        token: 'SOL',
        name: 'SOL',
        displayName: 'Solana',
        decimals: 9,
        smallestPayment: 890_880n, // the rent of an account; some networks take 650,240
        mostCoins: 10_000_000_000n,
        usualMinPayout: 1_000_000n,
        usualSweepMin: 890_880n, // the rent of an account: no account holds less
      },
      {
        token: 'USDC',
        name: 'SOL-USDC',
        displayName: 'USD Coin',
        decimals: 6,
        mostCoins: 1_000_000_000_000n,
        contract: '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU',
        ...splToken,
      },
      {
        token: 'USDT',
        name: 'SOL-USDT',
        displayName: 'Tether USD',
        decimals: 6,
        mostCoins: 1_000_000_000_000n,
        ...splToken,
      },
    ],
    feeBudget: '1',
    stallTimeoutMs: 60_000,
    pollIntervalMs: 1000,
  },
]

/** CAIP-2 id of a network. Its reference is cut to 32 characters. */
export function caip2(namespace: string, reference: string | number): string {
  return `${namespace}:${String(reference).slice(0, 32)}`
}

/** CAIP-2 ids of the networks whose coins are worth money: Ethereum, Polygon, Bitcoin, Tron, Solana. */
const mainNetworks = [
  'eip155:1',
  'eip155:137',
  'bip122:000000000019d6689c085ae165831e93',
  'tron:0x2b6653dc',
  'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
]

/**
 * Whether the coins of a network, given by its CAIP-2 id, are worth money. The networks in this file are test networks.
 */
export function isMainNetwork(network: string): boolean {
  return mainNetworks.includes(network)
}

/** The chain with this code; undefined if there is none. */
export function findChain(code: string): Chain | undefined {
  return chains.find(chain => chain.code === code)
}

/** Like findChain, for codes that were already checked. */
export function chain(code: string): Chain {
  const found = findChain(code)
  if (!found) throw new Error(`there is no chain ${code}; the chains are ${chains.map(c => c.code).join(', ')}`)
  return found
}
