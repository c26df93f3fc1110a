// The assets of a local EVM chain: its coin, the tokens in the service's settings, and USDC if they do not name it. The
// settings have the name of a token; its contract has the decimals.
import {decodeFunctionResult, encodeFunctionData, erc20Abi, getAddress, type Hex, parseUnits} from 'viem'
import {z} from 'zod'
import type {ChainCode} from '../../../chains/registry.ts'
import type {EvmClient} from '../../../devnet/evm/client.ts'
import {usdcAddress} from '../../../devnet/evm/constants.ts'
import {families} from '../../../devnet/families.ts'
import type {Asset} from '../asset.ts'
import type {Service} from '../service.ts'

/** Its name for the service; for unknown tokens the contract. */
export interface Token extends Asset {
  contract: Hex
  /** Whether the service knows it. */
  isKnown: boolean
}

const coins: {[C in ChainCode]?: string} = {ETH: 'ETH', POLYGON: 'POL'}

const Entries = z.array(
  z.looseObject({code: z.string(), name: z.string(), contract: z.string(), min_payout: z.string()}),
)

export async function localClient(chain: ChainCode, service: Service): Promise<EvmClient> {
  const {connect} = await families.evm()
  return await connect(service.controlUrl(chain))
}

export function coinOf(chain: ChainCode): Asset {
  const coin = coins[chain]
  if (!coin) throw new Error(`${import.meta.filename} has no name for the coin of ${chain}`)
  return {chain, token: coin, name: coin, decimals: 18, usual: 10n ** 18n}
}

export async function tokensOf(client: EvmClient, service: Service): Promise<Token[]> {
  const {chain} = client
  const tokens = await Promise.all(
    entriesOf(chain, service.settingsOf(chain)).map(async ({token, name, contract, minPayout}) => {
      const decimals = await decimalsOf(client, contract)
      const usual = minPayout === undefined ? 10n ** BigInt(decimals) : 2n * parseUnits(minPayout, decimals)
      return {chain, token, name, contract, decimals, usual, isKnown: true}
    }),
  )
  const isUsdcKnown = tokens.some(({contract}) => contract === usdcAddress)
  return isUsdcKnown ? tokens : [...tokens, await unknown(client, usdcAddress)]
}

interface Entry {
  token: string
  name: string
  contract: Hex
  /** In whole coins; undefined if the torture's own settings allow any. */
  minPayout?: string
}

/** <CHAIN>_<TOKEN>_CONTRACT and <CHAIN>_TOKENS. */
function entriesOf(chain: ChainCode, settings: Record<string, string>): Entry[] {
  const contracts = Object.entries(settings).flatMap(([setting, contract]) => {
    const [, token] = /^[A-Z]+_([A-Z0-9]+)_CONTRACT$/.exec(setting) ?? []
    return token && contract ? [{token, name: `${chain}-${token}`, contract: getAddress(contract)}] : []
  })
  const entered = Entries.parse(JSON.parse(settings[`${chain}_TOKENS`] || '[]'))
  return [
    ...contracts,
    ...entered.map(({code, name, contract, min_payout}) => {
      return {token: code, name, contract: getAddress(contract), minPayout: min_payout}
    }),
  ]
}

async function unknown(client: EvmClient, contract: Hex): Promise<Token> {
  const decimals = await decimalsOf(client, contract)
  const token = contract.toLowerCase()
  return {chain: client.chain, token, name: token, contract, decimals, usual: 10n ** BigInt(decimals), isKnown: false}
}

async function decimalsOf(client: EvmClient, contract: Hex): Promise<number> {
  const call = {abi: erc20Abi, functionName: 'decimals'} as const
  const data = (await client.rpc('eth_call', [{to: contract, data: encodeFunctionData(call)}, 'latest'])) as Hex
  return decodeFunctionResult({...call, data})
}

/** In the current blocks. */
export async function balanceOf(client: EvmClient, asset: Asset | Token, address: string): Promise<bigint> {
  if (!('contract' in asset)) return BigInt((await client.rpc('eth_getBalance', [address, 'latest'])) as Hex)
  const data = encodeFunctionData({abi: erc20Abi, functionName: 'balanceOf', args: [address as Hex]})
  return BigInt((await client.rpc('eth_call', [{to: asset.contract, data}, 'latest'])) as Hex)
}
