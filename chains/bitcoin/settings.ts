// The settings of a Bitcoin chain, and the variables that they are read from.
import {z} from 'zod'
import {choice, fileName, url, type Variables, variables, whole} from '../../base/variables.ts'
import {type CommonSettings, commonSettings, commonVariables} from '../chain-settings.ts'
import {type BitcoinChain, type BitcoinNetwork, bitcoinNetworks} from '../registry.ts'

export interface BitcoinSettings extends CommonSettings<BitcoinChain> {
  network: BitcoinNetwork
  /** Where transactions are read from and sent to: Electrum servers, or a bitcoind. */
  source: 'electrum' | 'node'
  /** tcp:// or tls://; the first working server is used. Empty if none is set. */
  electrumUrls: string[]
  /** A PEM file with certificates that are trusted for tls:// servers instead of the system's. */
  electrumCa?: string
  /** JSON-RPC of bitcoind, with user and password. */
  rpcUrl?: string
  /** A block is final when it and the blocks above it are at least this many. */
  confirmations: number
  /** The lowest and the highest fee rate of our transactions, in sat per virtual byte. */
  minFeeRate: number
  maxFeeRate: number
}

/** The settings as Bitcoin settings. Throws if the chain is of another family. */
export function bitcoinSettings(settings: CommonSettings | undefined): BitcoinSettings {
  if (settings?.family !== 'bitcoin') throw new Error(`${settings?.chain.code} is not a Bitcoin chain`)
  return settings as BitcoinSettings
}

export function bitcoinVariables(chain: BitcoinChain): Variables<BitcoinSettings> {
  return variables({
    schema: schema(chain),
    make: given => settings(chain, given),
    prefix: `${chain.code}_`,
    inFiles: ['RPC_URL', 'ELECTRUM_URLS'],
  })
}

/** URLs of Electrum servers, such as tls://electrum.example:50002. */
const electrumUrls = z
  .string()
  .transform(text => text.split(',').map(part => part.trim()))
  .refine(
    urls => urls.every(isElectrumUrl),
    'must be tcp://host:port or tls://host:port, several separated by commas, such as tls://electrum.example:50002',
  )
  .optional()

function isElectrumUrl(text: string): boolean {
  return /^(tcp|tls):\/\/[^/\s]+:\d{1,5}$/.test(text) && URL.canParse(text)
}

function schema(chain: BitcoinChain) {
  return z.object({
    SOURCE: choice(['electrum', 'node']).default('electrum'),
    NETWORK: choice(bitcoinNetworks).default('testnet4'),
    ELECTRUM_URLS: electrumUrls,
    ELECTRUM_CA: fileName('/etc/ssl/electrum.pem').optional(),
    RPC_URL: url('http://user:password@node.example:8332', 'http', 'https').optional(),
    FINALITY: whole(1, 999_999, 6).optional(),
    MIN_FEE_RATE: whole(1, 1_000_000, 1).default(1),
    MAX_FEE_RATE: whole(1, 1_000_000, 200).default(200),
    ...commonVariables(chain),
  })
}

function settings(chain: BitcoinChain, given: z.infer<ReturnType<typeof schema>>): BitcoinSettings {
  return {
    ...commonSettings(chain, given),
    network: given.NETWORK,
    source: given.SOURCE,
    electrumUrls: given.ELECTRUM_URLS ?? [],
    electrumCa: given.ELECTRUM_CA,
    rpcUrl: given.RPC_URL,
    confirmations: given.FINALITY ?? chain.networks[given.NETWORK].confirmations,
    minFeeRate: given.MIN_FEE_RATE,
    maxFeeRate: given.MAX_FEE_RATE,
  }
}

/** The variables that make another process read the chain in the same way. */
export function bitcoinReading(settings: BitcoinSettings): Record<string, string> {
  const {chain, network, source, electrumUrls, electrumCa, rpcUrl, confirmations} = settings
  return {
    [`${chain.code}_SOURCE`]: source,
    [`${chain.code}_NETWORK`]: network,
    [`${chain.code}_ELECTRUM_URLS`]: electrumUrls.join(','),
    [`${chain.code}_ELECTRUM_CA`]: electrumCa ?? '',
    [`${chain.code}_RPC_URL`]: rpcUrl ?? '',
    [`${chain.code}_FINALITY`]: String(confirmations),
  }
}
