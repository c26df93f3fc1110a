// An operator's own tokens: the setting <CHAIN>_TOKENS, a JSON list whose entries have the same data as those of the
// registry. Promises: an accepted entry has every field, amounts that its decimals can express, and a code, a name and
// a contract of its own on the chain. Each problem names the entry and its field.
import {z} from 'zod'
import {unitsOf} from '../chain-settings.ts'
import {tokenNames} from '../contract-tokens.ts'
import {chains, type Erc20, type EvmChain} from '../registry.ts'

const example =
  '[{"code": "EURC", "name": "ETH-EURC", "display_name": "Euro Coin", "contract": "0x08210F9170F89Ab7658F0B5E3fF39b0E03C594D4", "decimals": 6, "min_payout": "1", "sweep_min": "1", "sweep": {"by": "eip3009", "domain": {"name": "EURC", "version": "2"}}}]'

export const contractAddress = matching({
  pattern: /^0x[0-9a-fA-F]{40}$/,
  must: 'must be a contract address: 0x and 40 hex digits, such as 0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
})

const amount = z.string({error: 'must be an amount in whole coins, in quotes, such as "0.5"'})
const decimals = 'must be a whole number from 0 to 36, such as 6'
const sweep =
  'must say how deposits are swept, such as {"by": "fund"} or {"by": "eip3009", "domain": {"name": "EURC", "version": "2"}}'
const inDomain = (example: string) =>
  matching({
    pattern: /^\P{Cc}{1,100}$/u,
    must: `must be as in the EIP-712 domain of the contract, such as "${example}"`,
  })

/** How a token is swept, as settings and the database have it. */
export const Sweep = z.discriminatedUnion(
  'by',
  [
    z.strictObject(
      {
        by: z.literal('eip3009'),
        domain: z.strictObject({name: inDomain('EURC'), version: inDomain('2')}, {error: sweep}),
      },
      {error: sweep},
    ),
    z.strictObject({by: z.literal('fund')}, {error: sweep}),
  ],
  {error: sweep},
)

const Entry = z.strictObject(
  {
    code: matching(tokenNames.code),
    name: matching(tokenNames.name),
    display_name: matching(tokenNames.displayName),
    contract: contractAddress,
    decimals: z.int({error: decimals}).min(0, decimals).max(36, decimals),
    min_payout: amount,
    sweep_min: amount,
    payout_limit: amount.optional(),
    daily_limit: amount.optional(),
    sweep: Sweep,
  },
  {
    error: ({code}) => (code === 'unrecognized_keys' ? `must have only known fields, such as ${example}` : listed),
  },
)
type Entry = z.infer<typeof Entry>
const listed = `must be a list of tokens in JSON, such as ${example}`

const Entries = z.array(Entry, {error: listed}).superRefine((entries, {addIssue}) => {
  for (const [index, entry] of entries.entries())
    for (const field of amounts)
      if (entry[field] !== undefined && unitsOf(entry[field], entry.decimals) === undefined)
        addIssue({
          code: 'custom',
          path: [index, field],
          message: `must be an amount in whole coins, with at most ${entry.decimals} decimals, such as "1"`,
        })
})
const amounts = ['min_payout', 'sweep_min', 'payout_limit', 'daily_limit'] as const

export interface OwnTokens {
  tokens: Erc20[]
  /** The list in the form in which it is passed to another process. */
  text: string
}

/** Reads the list in this setting of a chain. */
export const ownTokens = z.string().transform((text, {addIssue}): OwnTokens => {
  const {data, error} = Entries.safeParse(parsed(text))
  if (data) return {tokens: data.map(tokenOf), text: JSON.stringify(data)}
  for (const {path, message} of error.issues) addIssue(`${where(path)}${message}`)
  return z.NEVER
})

/** One problem for each code, name or contract that another asset already has; each begins with its field. */
export function collisions(tokens: Erc20[], {assets: [native, ...known]}: EvmChain): string[] {
  const found: string[] = []
  for (const [index, token] of tokens.entries()) {
    const before = [...known, ...tokens.slice(0, index)]
    const others = [...chains.flatMap(chain => chain.assets), ...before]
    const contract = token.contract!.toLowerCase()
    const is = (field: string, value: string, what: string) =>
      found.push(`${where([index, field])}must be ${what}; ${value} is taken (each token is there once)`)
    if ([native, ...before].some(other => other.token === token.token))
      is('code', token.token, 'a code that no other asset of the chain has, such as EURC')
    if (others.some(other => other.name === token.name))
      is('name', token.name, 'a name that no other asset has, such as ETH-EURC')
    if (before.some(other => other.contract?.toLowerCase() === contract))
      is('contract', token.contract!, `a contract that no other token of the chain has, such as ${exampleContract}`)
  }
  return found
}
const exampleContract = '0x08210F9170F89Ab7658F0B5E3fF39b0E03C594D4'

function tokenOf(entry: Entry): Erc20 {
  const units = (amount: string) => unitsOf(amount, entry.decimals)!
  return {
    token: entry.code,
    name: entry.name,
    displayName: entry.display_name,
    decimals: entry.decimals,
    contract: entry.contract,
    sweep: entry.sweep,
    usualMinPayout: units(entry.min_payout),
    usualSweepMin: units(entry.sweep_min),
    ...(entry.payout_limit !== undefined && {usualPayoutLimit: units(entry.payout_limit)}),
    ...(entry.daily_limit !== undefined && {usualDailyLimit: units(entry.daily_limit)}),
  }
}

function matching({pattern, must}: {pattern: RegExp; must: string}) {
  return z.string({error: must}).regex(pattern, must)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The path of a field and a space, such as "[0].sweep.domain.name "; empty for the list itself. */
function where(path: PropertyKey[]): string {
  const words = path.map(step => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`))
  return words.length ? `${words.join('')} ` : ''
}
