// Every chain and asset that Sluice knows, as data. Promises: no I/O, no settings; what differs between a public and a local network
// (RPC address, chain id, token contracts) is in the settings of its family (evm/settings.ts, bitcoin/settings.ts).

/** The chain codes of the contract. A code that has no entry in `chains` yet cannot be enabled for a merchant. */
export const chainCodes = ['ETH', 'SOL', 'TRON', 'BTC', 'POLYGON'] as const
export type ChainCode = (typeof chainCodes)[number]

export interface Asset {
  token: string
  /** Name of the asset in the payment-request endpoints. */
  name: string
  displayName: string
  decimals: number
  /** Of a token: on the public test network; in settings, on the network that is followed. Absent where nobody says where it is. */
  contract?: string
  /** The smallest net amount of a payout that the chain carries, in base units; 1 where it is absent. */
  minPayout?: bigint
  /** What the setting *_MIN_PAYOUT is unless it is set, in base units: as a rule more than the network fee of a payout. */
  usualMinPayout: bigint
  /** As much for *_PAYOUT_LIMIT and *_DAILY_LIMIT. */
  usualPayoutLimit?: bigint
  usualDailyLimit?: bigint
}

/** A token that an ERC-20 contract keeps. It is paid by the contract's transfer(address,uint256). */
export interface Erc20 extends Asset {
  sweep: Sweep
  /** What the setting *_SWEEP_MIN is unless it is set, in base units. */
  usualSweepMin: bigint
}

/**
 * How a token leaves an address that has no coins for fees. eip3009: the address signs an authorisation (EIP-712), with which the treasury takes
 * it (receiveWithAuthorization). Another way is another member here, and what custody signs, and what the contract is asked at start, for it.
 */
export interface Sweep {
  by: 'eip3009'
  /** What the contract's signatures are bound to, beside its address and the chain. */
  domain: Domain
  /** By chain id, where the contract of another network has another one. */
  domainOn?: Record<number, Domain>
}

export interface Domain {
  name: string
  version: string
}

interface CommonChain {
  code: ChainCode
  displayName: string
  /** The native coin, and tokens. In settings, those of the operator are among them. */
  assets: [native: Asset, ...tokens: Asset[]]
  /** A head that does not move for this long is a stalled node. */
  stallTimeoutMs: number
  /** How often a source that tells nothing by itself is asked for its head, and every source for its final block. */
  pollIntervalMs: number
  /** What network fees may come to in a day, in whole coins, where the operator sets nothing else. */
  feeBudget: string
}

export interface EvmChain extends CommonChain {
  /** Chains of one family share their addresses: a key controls the same address on each of them. */
  family: 'evm'
  assets: [native: Asset, ...tokens: Erc20[]]
  /** EIP-155 chain id of the public test network. */
  chainId: number
  /** The most that sweeping a token may cost, in whole coins, where the operator sets nothing else. */
  tokenSweepFee: string
  /** Blocks that a reorganisation may replace without the store having to be rewound. */
  rollbackHorizonBlocks: number
}

export interface BitcoinChain extends CommonChain {
  family: 'bitcoin'
  networks: Record<BitcoinNetwork, BitcoinNetworkData>
}

export type Chain = EvmChain | BitcoinChain
/** What has a line in the families.ts of every room. */
export type Family = Chain['family']

export const bitcoinNetworks = ['testnet4', 'signet', 'regtest'] as const
export type BitcoinNetwork = (typeof bitcoinNetworks)[number]

/** What tells a Bitcoin network from the others. */
export interface BitcoinNetworkData {
  /** Hash of the first block. */
  genesis: string
  /** The highest target that a block may have, in compact form: no header takes less work. */
  easiestBits: number
  /** Human-readable part of its segwit addresses (BIP-173). */
  hrp: string
  /** Version bytes of its base58 addresses. */
  pubKeyHash: number
  scriptHash: number
  /** A block is final when it and the blocks above it are so many. */
  confirmations: number
}

const testAddresses = {hrp: 'tb', pubKeyHash: 0x6f, scriptHash: 0xc4}

export const chains: Chain[] = [
  {
    code: 'ETH',
    displayName: 'Ethereum',
    family: 'evm',
    chainId: 11_155_111, // Sepolia
    assets: [
      {token: 'ETH', name: 'ETH', displayName: 'Ether', decimals: 18, usualMinPayout: 10n ** 15n}, // 21,000 gas at 47 gwei
      {
        token: 'USDC',
        name: 'ETH-USDC',
        displayName: 'USD Coin',
        decimals: 6,
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
    stallTimeoutMs: 180_000,
    pollIntervalMs: 1000,
  },
  {
    code: 'POLYGON',
    displayName: 'Polygon',
    family: 'evm',
    chainId: 80_002, // Amoy
    assets: [
      {token: 'POL', name: 'POL', displayName: 'Polygon Ecosystem Token', decimals: 18, usualMinPayout: 10n ** 16n},
    ],
    rollbackHorizonBlocks: 128,
    feeBudget: '50',
    tokenSweepFee: '0.1',
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
      },
      signet: {
        genesis: '00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6',
        easiestBits: 0x1e0377ae,
        ...testAddresses,
        confirmations: 2,
      },
      regtest: {
        genesis: '0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206',
        easiestBits: 0x207fffff,
        ...testAddresses,
        hrp: 'bcrt',
        confirmations: 2,
      },
    },
    // Nodes pass on no output that is smaller (dust), whatever the kind of address.
    assets: [{token: 'BTC', name: 'BTC', displayName: 'Bitcoin', decimals: 8, minPayout: 546n, usualMinPayout: 5_000n}],
    feeBudget: '0.05',
    stallTimeoutMs: 7_200_000, // blocks an hour apart are nothing special
    pollIntervalMs: 1000,
  },
]

/** CAIP-2 id of a network. Of what tells it from others of its namespace, no more than 32 characters are written. */
export function caip2(namespace: string, reference: string | number): string {
  return `${namespace}:${String(reference).slice(0, 32)}`
}

/** CAIP-2 ids of the networks whose coins are worth money: Ethereum, Polygon, Bitcoin. */
const mainNetworks = ['eip155:1', 'eip155:137', 'bip122:000000000019d6689c085ae165831e93']

/** Whether a network, by its CAIP-2 id, is one whose coins are worth money. Those here are test networks. */
export function isMainNetwork(network: string): boolean {
  return mainNetworks.includes(network)
}

/** The chain with this code; undefined where the contract names it and Sluice cannot run it yet. */
export function findChain(code: string): Chain | undefined {
  return chains.find(chain => chain.code === code)
}

/** As findChain, for codes that were checked before. */
export function chain(code: string): Chain {
  const found = findChain(code)
  if (!found) throw new Error(`no such chain: ${code}; known are ${chains.map(c => c.code).join(', ')}`)
  return found
}
