// Checks with the tokens' contracts that they are what the settings say, before anything is moved. Promises: a token is
// refused only because of its contract's response, and the message names the token and what to do. A node that does not
// respond proves nothing: that is a RetryableError.
import {contractOf} from '../contract-tokens.ts'
import type {TronNodes} from './client.ts'
import type {TronSettings} from './settings.ts'

/** decimals() */
const decimalsCall = '313ce567'

/** Why one of a chain's tokens is refused; undefined if none is. */
export async function refusedToken(settings: TronSettings, nodes: TronNodes): Promise<string | undefined> {
  for (const token of settings.tokens.values()) {
    const why = await refusal(settings, nodes, token)
    if (why !== undefined) return why
  }
}

async function refusal(settings: TronSettings, nodes: TronNodes, token: string): Promise<string | undefined> {
  const {chain} = settings
  const contract = contractOf(settings, token)!
  const {decimals} = chain.assets.find(asset => asset.token === token)!
  const answer = await nodes.ask(async node => {
    if (!(await node.contract(contract))) return 'there is no contract at this address'
    const {failure, returned} = await node.try({from: contract, contract, data: decimalsCall})
    if (failure) return `it refused decimals(): ${failure.words}`
    const said = returned.length === 32 ? BigInt(`0x${Buffer.from(returned).toString('hex')}`) : undefined
    return said === BigInt(decimals) ? undefined : `decimals() returned ${said ?? 'no number'}, not ${decimals}`
  })
  return (
    answer &&
    `${chain.code} ${token} cannot be followed: its contract ${contract} was asked, and ${answer}; correct ${chain.code}_${token}_CONTRACT`
  )
}
