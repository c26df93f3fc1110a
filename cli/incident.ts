// sluice incident: what must never happen and did, for an operator to decide.
import {type Command, InvalidArgumentError} from 'commander'
import {PermanentError} from '../base/errors.ts'
import {action, leaf, type Sluice, wholeNumber} from './command.ts'
import {moment, table} from './output.ts'

interface Incident {
  id: number
  /** Null where it concerns no single chain. */
  chain: string | null
  kind: string
  subject: string
  details: Record<string, unknown>
  opened_at: Date
  resolved_at: Date | null
  resolution: string | null
}

export function addIncidentCommands(program: Command): void {
  const incident = program.command('incident').description('what must never happen and did, for you to decide')

  leaf(incident, 'list', 'Lists open incidents, the newest first.', 'sluice incident list --all')
    .option('--all', 'resolved ones, too')
    .action(
      action<{all?: boolean}>(async ({db}, {all = false}) => {
        const {rows} = await db.query<Incident>(
          `select id::int, chain, kind, case when kind like 'final_deposit_%' then app.public_id('dep', subject::uuid) else subject end
             as subject, details, opened_at, resolved_at, resolution
           from app.incident where $1 or resolved_at is null order by id desc limit 200`,
          [all],
        )
        return {
          json: {incidents: rows},
          text: table(
            ['id', 'chain', 'kind', 'opened', ...(all ? ['resolution'] : []), 'subject', 'seen'],
            rows.map(row => [
              row.id,
              row.chain,
              row.kind,
              moment(row.opened_at),
              ...(all ? [row.resolution ?? 'open'] : []),
              row.subject,
              seen(row),
            ]),
            all ? 'There was never an incident.' : 'There are no open incidents.',
          ),
        }
      }),
    )

  leaf(
    incident,
    'resolve',
    [
      'Resolves incidents, so that payouts of their chains go on: all that are named, or none.',
      '',
      'reorged takes a final deposit back: its merchant is told (deposit.reorged), and the balance falls by its amount. A payout that',
      'collected it fails; from paying on, the merchant owes it instead. It is refused while the deposit is on the chain, and until a chain that is',
      'being read again has come as far. kept leaves everything as it is. A halted chain',
      '(fork_below_final) is resolved by sluice chain rewind or resume. What an audit found closes when it is right again; kept silences it for',
      'as long as exactly that is found.',
    ].join('\n'),
    'sluice incident resolve 7 8 9 --as kept',
  )
    .argument('<id...>', 'numbers of the incidents', (text: string, before: number[] = []) => [
      ...before,
      wholeNumber(text),
    ])
    .requiredOption('--as <decision>', 'reorged or kept', decision)
    .action(
      action<{as: string}>(async ({db}, options, numbers) => {
        const ids = [...new Set(numbers.split(',').map(Number))] // several arguments arrive with commas between them
        await resolve(db, ids, options.as)
        const which = ids.length === 1 ? `Incident ${ids} is` : `Incidents ${ids.join(', ')} are`
        return {json: {ids, resolution: options.as}, text: `${which} resolved: ${options.as}.`}
      }),
    )
}

/** All of them, or none. */
async function resolve(db: Sluice['db'], ids: number[], as: string): Promise<void> {
  const {rows} = await db.query<Pick<Incident, 'id' | 'kind' | 'chain' | 'resolution'>>(
    'select id::int, kind, chain, resolution from app.incident where id = any($1) order by chain, id',
    [ids],
  )
  const nothing = ids.length > 1 ? '. Nothing was resolved' : ''
  const missing = ids.find(id => !rows.some(row => row.id === id))
  if (missing !== undefined)
    throw new PermanentError(`there is no incident ${missing}; sluice incident list --all shows them${nothing}`)
  for (const row of rows) {
    const why = whyNot(row)
    if (why) throw new PermanentError(`incident ${row.id} ${why}${nothing}`)
  }
  await db.query('begin')
  try {
    // A deposit that is taken back takes all its incidents with it.
    for (const {id} of rows)
      await db.query('select app.resolve_incident(id, $2) from app.incident where id = $1 and resolved_at is null', [
        id,
        as,
      ])
    await db.query('commit')
  } catch (error) {
    await db.query('rollback')
    throw nothing ? new PermanentError(`${(error as Error).message}${nothing}`, {cause: error}) : error
  }
}

/** Why this command cannot resolve it; undefined if it can. */
function whyNot({kind, chain, resolution}: Pick<Incident, 'kind' | 'chain' | 'resolution'>): string | undefined {
  if (resolution) return `is resolved already (${resolution})`
  if (kind === 'fork_below_final')
    return (
      `is about the whole chain: sluice chain rewind --chain ${chain} reads it again from where it forked;` +
      ' sluice chain resume goes on without'
    )
  if (kind === 'journal_ahead')
    return 'says that the database is an older copy, and custody signed more since; sluice custody reconcile enters it'
}

function seen({details}: Incident): string {
  return Object.entries(details)
    .filter(([name]) => !['transfer', 'block_hash', 'found'].includes(name)) // with --json they are there
    .map(([name, value]) => `${name}=${value}`)
    .join(' ')
}

function decision(text: string): string {
  if (text !== 'reorged' && text !== 'kept') throw new InvalidArgumentError('it must be reorged or kept.')
  return text
}
