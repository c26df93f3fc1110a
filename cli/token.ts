// sluice token: the tokens that the service knows, and those that an operator adds to it while it runs.
import type {Command} from 'commander'
import type pg from 'pg'
import {PermanentError} from '../base/errors.ts'
import {formatUnits} from '../base/units.ts'
import {unitsOf} from '../chains/chain-settings.ts'
import {inspectorOf} from '../chains/clients.ts'
import {tokenNames} from '../chains/contract-tokens.ts'
import {AddressError, type InspectedToken} from '../chains/family.ts'
import type {ChainCode} from '../chains/registry.ts'
import {action, chainCode, confirm, leaf, requireFollowed, type Sluice, settingsOf, UsageError} from './command.ts'
import {facts, moment, table} from './output.ts'

const chainOption = ['--chain <code>', 'the chain: ETH, POLYGON, TRON or SOL', chainCode] as const
interface Wanted {
  chain: ChainCode
  contract: string
  min: string
  code?: string
  name?: string
  displayName?: string
  sweep?: string
  accept?: string[]
  payoutLimit?: string
  dailyLimit?: string
  yes?: boolean
  json?: boolean
}

export function addTokenCommands(program: Command): void {
  const token = program.command('token').description('the tokens that the service knows, and those that you add to it')

  leaf(
    token,
    'add',
    [
      'Adds a token to a chain of the running service: of an ERC-20 contract, of a TRC-20 contract on Tron, or of a mint on Solana.',
      '',
      'It asks the contract what it is, tries a transfer where tokens differ in that, shows what it found, and asks before it adds anything. The token',
      'counts from the next block on; merchants see it at once. What arrived before stays unattributed.',
    ].join('\n'),
    'sluice token add --chain ETH --contract 0xdAC17F958D2ee523a2206206994597C13D831ec7 --min 5',
  )
    .requiredOption(...chainOption)
    .requiredOption('--contract <address>', "the token's contract, on Solana its mint; take it from its issuer")
    .requiredOption(
      '--min <amount>',
      'the smallest payout, and the least on an address that is worth a sweep, in whole coins',
    )
    .option('--code <code>', 'its code here (default: its symbol)')
    .option('--name <name>', 'its name in payment requests (default: the chain and the code, such as ETH-USDT)')
    .option('--display-name <name>', 'its name for people (default: its own)')
    .option('--sweep <way>', 'how its addresses are swept: fund or eip3009 (default: eip3009 where the contract can)')
    .option(
      '--accept <extension...>',
      'on Solana, an extension of its mint that is refused otherwise, such as PermanentDelegate',
    )
    .option('--payout-limit <amount>', 'the largest payout, in whole coins (default: no limit)')
    .option('--daily-limit <amount>', 'the most that all payouts of a day may add up to (default: no limit)')
    .option('--yes', 'do not ask')
    .action(action<Wanted>(add))

  leaf(
    token,
    'list',
    'Lists the tokens of each chain: how they are swept, and which of them were added.',
    'sluice token list',
  )
    .option(...chainOption)
    .action(action<{chain?: ChainCode}>(async ({db}, {chain}) => await list(db, chain)))

  leaf(
    token,
    'disable',
    [
      'Disables a token that was added: what arrives after the newest block is unattributed.',
      '',
      'Nobody can ask for payments in it any more. Balances can still be paid out. This is for ever: neither the code nor the contract',
      'can be added again.',
    ].join('\n'),
    'sluice token disable --chain ETH --code USDT',
  )
    .requiredOption(...chainOption)
    .requiredOption('--code <code>', 'the token')
    .option('--yes', 'do not ask')
    .action(
      action<{chain: ChainCode; code: string; yes?: boolean}>(async ({db}, {chain, code, yes}) => {
        const token = code.toUpperCase()
        await requireCounting(db, chain, token)
        await confirm(`${token} on ${chain} would count up to the newest block, and never again.`, yes ?? false)
        const height = await refusable(db, 'app.disable_token($1, $2)', [chain, token])
        return {
          json: {chain, token, until_height: height},
          text: `${token} counts up to block ${height} of ${chain}. Balances can still be paid out.`,
        }
      }),
    )
}

async function add({db, service}: Sluice, wanted: Wanted) {
  const {chain, json} = wanted
  requireFollowed(service, chain)
  const settings = settingsOf(service, chain)
  const inspector = await inspectorOf(settings)
  if (!inspector) throw new PermanentError(`tokens can be added on ETH, POLYGON, TRON and SOL, and not on ${chain}`)
  const inspected = await inspector.inspectToken(settings, wanted.contract, wanted.accept ?? []).catch(error => {
    if (!(error instanceof AddressError)) throw error
    throw new UsageError(`"${wanted.contract}" is no contract address on ${chain}: it ${error.message}`)
  })
  const entry = entryOf(wanted, inspected)
  const found = {
    ...inspected.facts(entry.sweep),
    'held back below': `${formatUnits(BigInt(entry.sweep_min), entry.decimals)} ${entry.token}`,
  }
  if (!json) console.error(facts(found))
  await confirm(`${entry.token} (${entry.name}) would be added to ${chain}.`, wanted.yes ?? false)
  const height = await refusable(db, 'app.add_token($1, $2)', [chain, JSON.stringify(entry)])
  return {
    json: {chain, ...entry, from_height: height, found},
    text: `${entry.token} counts on ${chain} from block ${height} on. Its payouts go to whitelisted addresses, as any.`,
  }
}

/** As app.add_token takes it. */
function entryOf({chain, min, sweep: way, ...wanted}: Wanted, {decimals, sweeps, ...found}: InspectedToken) {
  const token = (wanted.code ?? found.symbol ?? '').toUpperCase()
  const name = wanted.name ?? `${chain}-${token}`
  const displayName = wanted.displayName ?? found.name ?? token
  if (wanted.code === undefined && !tokenNames.code.pattern.test(token))
    throw new PermanentError(
      `the contract's symbol ${found.symbol === undefined ? 'is no text' : `is "${found.symbol}"`}, and a code ${tokenNames.code.must}; give one with --code`,
    )
  for (const [option, value, {pattern, must}] of [
    ['--code', token, tokenNames.code],
    ['--name', name, tokenNames.name],
    ['--display-name', displayName, tokenNames.displayName],
  ] as const)
    if (!pattern.test(value)) throw new UsageError(`${option} ${must}; "${value}" is not`)
  const units = (amount: string) => {
    const found = unitsOf(amount, decimals)
    if (found) return String(found)
    throw new UsageError(`"${amount}" is no amount of ${token} above zero, which has ${decimals} decimals`)
  }
  const sweep = way === undefined ? sweeps[0]! : sweeps.find(({by}) => by === way)
  if (!sweep)
    throw new PermanentError(
      `${token} cannot be swept by ${way}: its contract allows ${sweeps.map(({by}) => by).join(' and ')}`,
    )
  if (wanted.accept && !('accepts' in sweep))
    throw new UsageError(`--accept names extensions of mints, and a contract on ${chain} has none`)
  for (const [option, limit] of [
    ['--payout-limit', wanted.payoutLimit],
    ['--daily-limit', wanted.dailyLimit],
  ] as const)
    if (limit !== undefined && BigInt(units(limit)) < BigInt(units(min)))
      throw new UsageError(`${option} allows no payout: ${limit} is less than the smallest one, ${min}`)
  return {
    token,
    name,
    display_name: displayName,
    decimals,
    contract: found.contract,
    sweep,
    min_payout: units(min),
    sweep_min: units(min),
    payout_limit: wanted.payoutLimit === undefined ? null : units(wanted.payoutLimit),
    daily_limit: wanted.dailyLimit === undefined ? null : units(wanted.dailyLimit),
    code_hash: found.codeHash,
  }
}

async function list(db: pg.Client, chain: ChainCode | undefined) {
  const {rows} = await db.query(
    `select a.chain, a.token, a.name, a.decimals, coalesce(k.contract, (select c ->> 'contract' from jsonb_array_elements(h.assets) c
         where c ->> 'token' = a.token), '') as contract, a.sweep_by, app.decimal(a.sweep_min, a.decimals) as sweep_min, k.from_height, k.until_height, k.added_at
     from app.asset a join app.chain h using (chain) left join app.token k using (chain, token)
     where a.token <> h.native_token and ($1::text is null or a.chain = $1) order by a.chain, k.added_at nulls first, a.token`,
    [chain ?? null],
  )
  return {
    json: {tokens: rows},
    text: table(
      ['chain', 'token', 'name', 'contract', 'decimals', 'swept by', 'minimum', 'counts', 'added'],
      rows.map(row => [
        row.chain,
        row.token,
        row.name,
        row.contract,
        row.decimals,
        row.sweep_by,
        row.sweep_min,
        row.from_height === null
          ? 'by the settings'
          : `from block ${row.from_height}${row.until_height === null ? '' : ` to ${row.until_height}`}`,
        moment(row.added_at),
      ]),
      'There are no tokens.',
    ),
  }
}

async function requireCounting(db: pg.Client, chain: ChainCode, token: string): Promise<void> {
  const {rows} = await db.query<{until_height: number | null}>(
    'select until_height from app.token where chain = $1 and token = $2',
    [chain, token],
  )
  if (!rows[0]) throw new PermanentError(`no token ${token} was added to ${chain}; sluice token list shows what was`)
  if (rows[0].until_height !== null)
    throw new PermanentError(`${token} on ${chain} is disabled: it counts up to block ${rows[0].until_height}`)
}

/** The height that a function returns. Throws PermanentError with the words in which it refuses. */
async function refusable(db: pg.Client, call: string, values: string[]): Promise<number> {
  try {
    return (await db.query<{height: number}>(`select ${call} as height`, values)).rows[0]!.height
  } catch (error) {
    const {code, message} = error as {code?: string; message: string}
    if (code === 'SL422' || code === 'P0002') throw new PermanentError(message)
    throw error
  }
}
