// sluice incident: what must never happen and did, for an operator to decide.
import {type Command, InvalidArgumentError} from 'commander'
import {PermanentError} from '../service/errors.ts'
import {action, leaf, wholeNumber} from './command.ts'
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
      'Resolves an incident, so that payouts of its chain go on.',
      '',
      'reorged takes a final deposit back: its merchant is told (deposit.reorged), and the balance falls by its amount. A payout that',
      'collected it fails; from paying on, the merchant owes it instead. kept leaves everything as it is. A halted chain',
      '(fork_below_final) is resolved by sluice chain rewind or resume. What an audit found closes when it is right again; kept silences it for',
      'as long as exactly that is found.',
    ].join('\n'),
    'sluice incident resolve 7 --as reorged',
  )
    .argument('<id>', 'number of the incident', wholeNumber)
    .requiredOption('--as <decision>', 'reorged or kept', decision)
    .action(
      action<{as: string}>(async ({db}, options, id) => {
        const {rows} = await db.query<{kind: string; chain: string}>(
          'select kind, chain from app.incident where id = $1',
          [id],
        )
        if (!rows[0]) throw new PermanentError(`there is no incident ${id}; sluice incident list --all shows them`)
        if (rows[0].kind === 'fork_below_final')
          throw new PermanentError(
            `incident ${id} is about the whole chain: sluice chain rewind --chain ${rows[0].chain} reads it again from where` +
              ' it forked; sluice chain resume goes on without',
          )
        if (rows[0].kind === 'journal_ahead')
          throw new PermanentError(
            `incident ${id}: the database is an older copy, and custody signed more since; sluice custody reconcile enters it`,
          )
        await db.query('select app.resolve_incident($1, $2)', [id, options.as])
        return {json: {id: Number(id), resolution: options.as}, text: `Incident ${id} is resolved: ${options.as}.`}
      }),
    )
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
