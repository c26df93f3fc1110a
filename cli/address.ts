// sluice address: deposit addresses that hold money, and those that the chain does not let a token leave.
import {type Command, Option} from 'commander'
import {PermanentError} from '../base/errors.ts'
import type {ChainCode} from '../chains/registry.ts'
import {action, chainCode, leaf} from './command.ts'
import {moment, table} from './output.ts'

const shownAtMost = 200

interface Held {
  chain: string
  token: string
  merchant: string
  /** Final money, in whole coins. */
  holds: string
  address: string
  blocked: {since: string; why: string; tried_again_at: string} | null
}

export function addAddressCommands(program: Command): void {
  const address = program.command('address').description('deposit addresses: what they hold, and which are blocked')

  leaf(
    address,
    'list',
    [
      `Lists deposit addresses that hold final money, the largest first, ${shownAtMost} at most.`,
      '',
      'A blocked address cannot be swept: the node said, at a final block, that the chain refuses it, and that it does not refuse others. It may be',
      'frozen by the issuer of the token. Its deposits are held back, everything else is paid out, and it is tried again once a day.',
    ].join('\n'),
    'sluice address list --blocked',
  )
    .option('--chain <code>', 'only this chain', chainCode)
    .addOption(new Option('--blocked', 'only blocked addresses'))
    .action(
      action<{chain?: ChainCode; blocked?: boolean}>(async ({db}, {chain, blocked = false}) => {
        const {rows} = await db.query<Held>(
          `select a.chain, a.token, m.prefix as merchant, app.decimal(coalesce(h.amount, 0), a.decimals) as holds, o.address,
             case when b.address is not null then json_build_object('since', app.iso(b.blocked_at), 'why', b.why, 'tried_again_at', app.iso(b.retry_at)) end as blocked
           from app.blocked_address b
           full join (select * from app.holding where amount > 0 and merchant_id is not null) h using (chain, token, address)
           join custody.address o using (address) join app.merchant m on m.id = o.merchant_id join app.asset a using (chain, token)
           where coalesce(chain = $1, true) and (b.address is not null or not $2)
           order by a.chain, a.token, h.amount desc nulls last, o.address limit ${shownAtMost}`,
          [chain ?? null, blocked],
        )
        return {
          json: {addresses: rows},
          text: table(
            ['chain', 'token', 'merchant', 'holds', 'address', 'blocked since', 'tried again', 'because'],
            rows.map(row => [
              row.chain,
              row.token,
              row.merchant,
              row.holds,
              row.address,
              moment(row.blocked?.since),
              moment(row.blocked?.tried_again_at),
              row.blocked?.why,
            ]),
            blocked ? 'No address is blocked.' : 'No address holds final money.',
          ),
        }
      }),
    )

  leaf(
    address,
    'unblock',
    [
      'Ends the blocking of an address: payouts collect its deposits again.',
      '',
      'If the chain still refuses it, the next payout that claims its deposits finds that out, blocks it again, and fails (deposits_blocked).',
    ].join('\n'),
    'sluice address unblock --chain ETH --token USDC 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
  )
    .argument('<address>', 'the address, as sluice address list --blocked shows it')
    .requiredOption('--chain <code>', 'the chain', chainCode)
    .requiredOption('--token <code>', 'the token')
    .action(
      action<{chain: ChainCode; token: string}>(async ({db}, {chain, token}, which) => {
        const {rows} = await db.query<{done: boolean}>(`select app.unblock($1, $2, $3, 'unblocked') as done`, [
          chain,
          token,
          which,
        ])
        if (!rows[0]!.done)
          throw new PermanentError(
            `${which} is not blocked for ${token} on ${chain}; sluice address list --blocked shows which are`,
          )
        return {
          json: {chain, token, address: which, unblocked: true},
          text: `${which} is not blocked any more: payouts collect its ${token} again.`,
        }
      }),
    )
}
