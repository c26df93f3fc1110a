// Every chain and asset that Sluice knows, as data. Promises: no I/O, no settings; what differs between a public and a local network
// (RPC address, chain id, token contracts) is in service/settings.ts.

/** The chain codes of the contract. A code that has no entry in `chains` yet cannot be enabled for a merchant. */
export const chainCodes = ['ETH', 'SOL', 'TRON', 'BTC', 'POLYGON'] as const
export type ChainCode = (typeof chainCodes)[number]

export interface Asset {
  token: string
  /** Name of the asset in the payment-request endpoints. */
  name: string
  displayName: string
  decimals: number
  /** ERC-20 contract on the public network; absent for the native coin. */
  contract?: string
}

export interface Chain {
  code: ChainCode
  displayName: string
  /** Chains of one family share their addresses: a key controls the same address on each of them. */
  family: 'evm'
  /** EIP-155 chain id of the public test network. */
  chainId: number
  assets: [native: Asset, ...tokens: Asset[]]
  /** Blocks that a reorganisation may replace without the store having to be rewound. */
  rollbackHorizonBlocks: number
  /** A head that does not move for this long is a stalled node. */
  stallTimeoutMs: number
  /** How often a node without subscriptions is asked for its head, and every node for its final block. */
  pollIntervalMs: number
}

export const chains: Chain[] = [
  {
    code: 'ETH',
    displayName: 'Ethereum',
    family: 'evm',
    chainId: 11_155_111, // Sepolia
    assets: [
      {token: 'ETH', name: 'ETH', displayName: 'Ether', decimals: 18},
      {
        token: 'USDC',
        name: 'ETH-USDC',
        displayName: 'USD Coin',
        decimals: 6,
        contract: '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
      },
    ],
    rollbackHorizonBlocks: 75,
    stallTimeoutMs: 180_000,
    pollIntervalMs: 1000,
  },
  {
    code: 'POLYGON',
    displayName: 'Polygon',
    family: 'evm',
    chainId: 80_002, // Amoy
    assets: [{token: 'POL', name: 'POL', displayName: 'Polygon Ecosystem Token', decimals: 18}],
    rollbackHorizonBlocks: 128,
    stallTimeoutMs: 60_000,
    pollIntervalMs: 1000,
  },
]

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
