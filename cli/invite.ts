// sluice invite: links by which people sign in to the dashboard. A link is shown once and never stored; it works once,
// for a day.
import {createHash, randomBytes} from 'node:crypto'
import type {Command} from 'commander'
import {PermanentError} from '../base/errors.ts'
import {dashboardUrlOf, readSettings} from '../chains/settings.ts'
import {action, leaf} from './command.ts'
import {findMerchant, merchantOption} from './merchant.ts'
import {moment} from './output.ts'

interface Options {
  merchant: string
  reset?: string
}

export function addInviteCommand(program: Command): void {
  leaf(
    program,
    'invite',
    'Makes a link by which somebody signs in to the dashboard of a merchant. Give it to that person yourself: nothing is sent. It works once, for a day.',
    'sluice invite --merchant acme\nsluice invite --merchant acme --reset ada@acme.example',
  )
    .requiredOption(...merchantOption)
    .option(
      '--reset <e-mail>',
      'for a person who lost the password or the second factor: the link sets a new password, removes every second factor, and ends every session',
    )
    .action(
      action<Options>(async ({db, service}, {merchant: named, reset}) => {
        const merchant = await findMerchant(db, named)
        const base =
          process.env.DASHBOARD_URL || !service.dashboard_url ? dashboardUrlOf(readSettings()) : service.dashboard_url
        const token = randomBytes(32).toString('base64url')
        const hash = createHash('sha256').update(token).digest()
        const {rows} = await db
          .query<{expires: Date}>('select dashboard.invite($1, $2, $3) as expires', [merchant.id, hash, reset])
          .catch(error => {
            if (error.code === 'SL404')
              throw new PermanentError(
                `nobody signs in as ${reset}; check the e-mail address, or invite a new person without --reset`,
              )
            if (error.code === 'SL422')
              throw new PermanentError(`${reset} belongs to another merchant than ${merchant.prefix}`)
            throw error
          })
        const {expires} = rows[0]!
        const url = `${base}/invitation/${token}`
        return {
          json: {url, expires_at: expires.toISOString()},
          text: [
            url,
            '',
            reset
              ? `It gives ${reset} a new password and a new second factor, and ends all sessions.`
              : `It makes a person of merchant ${merchant.prefix}.`,
            `It works once, until ${moment(expires)}. Whoever has it can use it: send it on a channel that you trust.`,
          ].join('\n'),
        }
      }),
    )
}
