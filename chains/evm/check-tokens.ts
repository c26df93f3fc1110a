// Checks with the tokens' contracts that tokens can be moved as the settings say, before anything is moved. Promises: a
// token is refused only because of its contract's response, and the message names the token, the request and what to
// do. A node that does not respond proves nothing. Requests depend only on the contract's code, so a token that its
// issuer has paused is not refused.
import {domainSeparator} from 'viem'
import {getAddress} from 'viem/utils'
import {RetryableError} from '../../base/errors.ts'
import type {ByAuthorisation, Erc20} from '../registry.ts'
import {Questions, type Response} from './client.ts'
import {meaningOf} from './node-errors.ts'
import {type EvmSettings, erc20} from './settings.ts'

const timeoutMs = 10_000

type Token = Erc20 & {contract: string}

interface TokenQuestion {
  name: string
  method: string
  params: unknown[]
  /**
   * Takes the response in hex, or undefined if the contract refused. Returns why the token is refused; undefined if it
   * is not.
   */
  judge(response: string | undefined): string | undefined
}

/** Why one of a chain's tokens is refused; undefined if none is. Throws RetryableError if the node cannot be asked. */
export async function refusedToken(settings: EvmSettings): Promise<string | undefined> {
  const tokens = [...settings.tokens.values()].map(code => erc20(settings, code))
  if (!tokens.length) return
  const node = new Questions(settings.rpcUrl!, timeoutMs)
  try {
    for (const token of tokens) {
      const why = await ask(node, token, settings)
      if (why !== undefined) return why
    }
  } finally {
    node.close()
  }
}

async function ask(node: Questions, token: Token, settings: EvmSettings): Promise<string | undefined> {
  const questions = questionsOf(token, settings)
  const responses = await node.ask(questions.map(({method, params}) => ({method, params})))
  for (const [index, {name, judge}] of questions.entries()) {
    const why = judge(hexOf(responses[index]!, name))
    if (why === undefined) continue
    const {code} = settings.chain
    return `${code} ${token.token} cannot be followed: its contract ${getAddress(token.contract)} was asked for ${name}, and ${why}; correct its setting (${code}_${token.token}_CONTRACT for a token that Sluice knows, ${code}_TOKENS for your own), or remove it`
  }
}

function questionsOf(token: Token, settings: EvmSettings): TokenQuestion[] {
  const {contract, decimals, sweep} = token
  const basic: TokenQuestion[] = [
    {
      name: 'its code',
      method: 'eth_getCode',
      params: [contract, 'latest'],
      judge: code => (code === undefined || code === '0x' ? 'there is none at this address' : undefined),
    },
    {
      name: 'decimals()',
      ...call(contract, '0x313ce567'),
      judge: response =>
        isWord(response) && BigInt(response) === BigInt(decimals)
          ? undefined
          : `${said(response)}, not the entry's ${decimals}`,
    },
  ]
  return sweep.by === 'fund' ? basic : [...basic, ...questionsOfAuthorisations(contract, sweep, settings)]
}

const call = (contract: string, data: string) => ({method: 'eth_call', params: [{to: contract, data}, 'latest']})

function questionsOfAuthorisations(
  contract: string,
  {domain: {name, version}}: ByAuthorisation,
  {chainId}: EvmSettings,
): TokenQuestion[] {
  const separator = domainSeparator({domain: {name, version, chainId, verifyingContract: getAddress(contract)}})
  const domain = `of the entry's domain (name "${name}", version "${version}", chain ${chainId})`
  return [
    {
      name: 'DOMAIN_SEPARATOR()',
      ...call(contract, '0x3644e515'),
      judge: response => (response === separator ? undefined : `${said(response)}, not the ${separator} ${domain}`),
    },
    {
      name: 'authorizationState(address,bytes32)',
      ...call(contract, `0xe94a0102${'1'.padStart(64, '0')}${'0'.repeat(64)}`),
      judge: response =>
        isWord(response) && BigInt(response) <= 1n
          ? undefined
          : `${said(response)}, so it has no authorisations (EIP-3009), which sweeps of deposits need`,
    },
  ]
}

/**
 * The result in hex; undefined if the contract itself refused. Throws RetryableError if the contract was not asked, or
 * the response is invalid.
 */
function hexOf(response: Response, name: string): string | undefined {
  if ('message' in response) {
    if (meaningOf(response) === 'call_fails') return undefined
    throw new RetryableError(`the node refused to ask the contract of a token for ${name}: ${response.message}`)
  }
  const {result} = response
  if (typeof result === 'string' && /^0x([0-9a-f]{2})*$/i.test(result)) return result.toLowerCase()
  throw new RetryableError(`the node sent an invalid response when the contract of a token was asked for ${name}`)
}

const isWord = (response: string | undefined): response is string => response?.length === 66

const said = (response: string | undefined) => {
  if (response === undefined) return 'it refused'
  return response === '0x'
    ? 'it returned nothing'
    : `it returned ${isWord(response) && response.startsWith('0x00000000') ? BigInt(response) : response.slice(0, 66)}`
}
