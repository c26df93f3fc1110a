// sluice chain: what an operator decides about a chain that is halted by a reorganisation below the final block, or
// that cannot start at the block where it should.
import os from 'node:os'
import type {Command} from 'commander'
import {PermanentError} from '../base/errors.ts'
import {action, chainCode, leaf, type Sluice, wholeNumber} from './command.ts'

const chainOption = ['--chain <code>', 'the chain', chainCode] as const

export function addChainCommands(program: Command): void {
  const chain = program.command('chain').description('a chain that is halted, or that does not start')

  leaf(
    chain,
    'rewind',
    [
      'Goes back to a height and reads the chain again from there, as the node has it now.',
      '',
      'Final deposits above that height stay as they are. An incident opens for each of them that is not found again.',
      'Without --to it goes back to the fork that the indexer found when it halted.',
    ].join('\n'),
    'sluice chain rewind --chain ETH',
  )
    .requiredOption(...chainOption)
    .option('--to <height>', 'the last block to keep', wholeNumber)
    .action(
      action<{chain: string; to?: number}>(async ({db}, {chain, to}) => {
        await db.query(`select app.refuse_decision($1, 'rewind')`, [chain])
        const height = to ?? (await forkOf(db, chain))
        await db.query('select app.request_rewind($1, $2)', [chain, height])
        return {
          json: {chain, rewind_to: height},
          text: `The indexer goes back to block ${height} of ${chain} and reads on from there; sluice status shows it.`,
        }
      }),
    )

  leaf(
    chain,
    'resume',
    'Resumes a halted chain and keeps our data; use it when the node was wrong. It is refused if the chain is halted for another reason.',
    'sluice chain resume --chain ETH',
  )
    .requiredOption(...chainOption)
    .action(
      action<{chain: string}>(async ({db}, {chain}) => {
        const {rows} = await db.query<{halted: boolean; way_out: string | null}>(
          'select halted_at is not null as halted, app.way_out(chain) as way_out from chain.cursor where chain = $1',
          [chain],
        )
        if (!rows[0]) throw new PermanentError(`${chain} is not followed; sluice status shows the chains that are`)
        const {halted, way_out} = rows[0]
        const instead = way_out === null ? '' : `, but its payouts are stopped: ${way_out}`
        if (!halted) throw new PermanentError(`${chain} is not halted; there is nothing to resume${instead}`)
        await db.query('select app.resume_chain($1)', [chain])
        return {
          json: {chain, resumed: true},
          text: `${chain} is resumed. If its final block is still not on the node's chain, it will be halted again.`,
        }
      }),
    )

  leaf(
    chain,
    'start',
    [
      'Starts a chain that was never followed at a later block, and accepts that earlier payments to our addresses are missed.',
      '',
      'Payments below that block are not seen, and no merchant gets them. Sluice records who accepted that, and when; sluice status shows the gap.',
    ].join('\n'),
    'sluice chain start --chain BTC --from 120000 --accept-gap',
  )
    .requiredOption(...chainOption)
    .requiredOption('--from <height>', 'the first block to read', wholeNumber)
    .requiredOption('--accept-gap', 'accept that payments below that block are not seen')
    .action(
      action<{chain: string; from: number}>(async ({db}, {chain, from}) => {
        const by = `${os.userInfo().username} on ${os.hostname()}`
        const {rows} = await db.query<{missing_from: number | null}>(
          'select missing_from from app.accept_gap($1, $2, $3)',
          [chain, from, by],
        )
        const {missing_from} = rows[0]!
        return {
          json: {chain, missing_from, follow_from: from, accepted_by: by},
          text:
            `${chain} is followed from block ${from} on as soon as its indexer reads this. What was paid in blocks ` +
            `${missing_from === null ? 'below' : `${missing_from} to ${from - 1}`} is not seen.`,
        }
      }),
    )

  leaf(
    chain,
    'forget',
    'Removes a chain that was never followed, and is no longer configured, from sluice status, /readyz and the metrics.',
    'sluice chain forget --chain POLYGON',
  )
    .requiredOption(...chainOption)
    .action(
      action<{chain: string}>(async ({db}, {chain}) => {
        const {rows} = await db.query<{done: boolean}>('select app.forget_chain($1) as done', [chain])
        if (!rows[0]!.done)
          throw new PermanentError(`no indexer of ${chain} was ever started; there is nothing to forget`)
        return {
          json: {chain, forgotten: true},
          text: `${chain} is forgotten. It comes back if its indexer is started again.`,
        }
      }),
    )
}

/** The newest block that we and the node had in common when the chain was halted. */
async function forkOf(db: Sluice['db'], chain: string): Promise<number> {
  const {rows} = await db.query<{height: number | null}>(
    `select (details->>'common_height')::int as height from app.incident
     where chain = $1 and kind = 'fork_below_final' and resolved_at is null`,
    [chain],
  )
  const height = rows[0]?.height
  if (height != null) return height
  throw new PermanentError(
    rows[0]
      ? `the fork of ${chain} is below every block that we store; give with --to the height to go back to`
      : `${chain} is not halted; to read it again anyway, give with --to the height to go back to`,
  )
}
