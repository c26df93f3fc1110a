// sluice key: merchants' API keys. A secret is shown once and never stored.
import {type Command, InvalidArgumentError} from 'commander'
import {newKey} from '../base/api-key.ts'
import {PermanentError} from '../base/errors.ts'
import {type Scope, scopes} from '../base/scopes.ts'
import {action, leaf, requireId} from './command.ts'
import {findMerchant, merchantOption} from './merchant.ts'
import {facts, moment, table} from './output.ts'

/** Scopes, separated by commas, in the order of their list. Throws InvalidArgumentError. */
function scopeList(text: string): Scope[] {
  const named = new Set(text.split(',').map(name => name.trim()))
  for (const name of named)
    if (!scopes.some(scope => scope === name))
      throw new InvalidArgumentError(`There is no scope ${name || '(empty)'}; there are ${scopes.join(', ')}.`)
  return scopes.filter(scope => named.has(scope))
}

export function addKeyCommands(program: Command): void {
  const key = program.command('key').description("merchants' API keys")

  leaf(
    key,
    'create',
    'Makes an API key. Its secret is shown once, here.',
    'sluice key create --merchant acme --label "shop, production" --scopes read,users,payments',
  )
    .requiredOption(...merchantOption)
    .option('--label <text>', 'what the key is for, at most 100 characters')
    .option(
      '--scopes <list>',
      'what it may do, separated by commas: read (every GET), and the changes of users, payouts, payments, webhooks',
      scopeList,
      [...scopes],
    )
    .action(
      action<{merchant: string; label?: string; scopes: Scope[]}>(async ({db, service}, options) => {
        const merchant = await findMerchant(db, options.merchant)
        const {secret, hash} = newKey()
        const {rows} = await db.query<{id: string}>(
          `select app.public_id('key', app.create_api_key($1, $2, $3, $4)) as id`,
          [merchant.id, hash, options.label, options.scopes],
        )
        const {id} = rows[0]!
        return {
          json: {id, secret, scopes: options.scopes},
          text: [
            facts({id, secret, scopes: options.scopes.join(', ')}),
            '',
            'The secret is not shown again. Try it:',
            `  curl -H 'Authorization: Bearer ${secret}' ${service.api_url}/v1/balances`,
          ].join('\n'),
        }
      }),
    )

  leaf(key, 'list', 'Lists the API keys of a merchant, without their secrets.', 'sluice key list --merchant acme')
    .requiredOption(...merchantOption)
    .action(
      action<{merchant: string}>(async ({db}, options) => {
        const merchant = await findMerchant(db, options.merchant)
        const {rows} = await db.query<{
          id: string
          label: string | null
          scopes: Scope[]
          created_at: Date
          last_used_on: string | null
          revoked_at: Date | null
        }>(
          `select app.public_id('key', id) as id, label, scopes, created_at, last_used_on::text, revoked_at from app.api_key
           where merchant_id = $1 order by created_at, id`,
          [merchant.id],
        )
        return {
          json: {keys: rows},
          text: table(
            ['id', 'label', 'scopes', 'made', 'last used', 'revoked'],
            rows.map(row => [
              row.id,
              row.label,
              row.scopes.join(', '),
              moment(row.created_at),
              row.last_used_on,
              moment(row.revoked_at),
            ]),
            `Merchant ${merchant.prefix} has no keys; sluice key create makes one.`,
          ),
        }
      }),
    )

  leaf(
    key,
    'revoke',
    'Revokes an API key, at once.',
    'sluice key revoke key_0199f2c4a1b27c3d8e4f5a6b7c8d9e0f --merchant acme',
  )
    .argument('<key-id>', 'id of the key')
    .option(merchantOption[0], 'revoke the key only if it belongs to this merchant (id or prefix)')
    .action(
      action<{merchant?: string}>(async ({db}, options, given) => {
        const id = requireId('key', 'key', given)
        const merchant = options.merchant === undefined ? undefined : await findMerchant(db, options.merchant)
        const {rows} = await db.query<{revoked_at: Date}>(
          `with own as (select id from app.api_key where id = $1 and ($2::uuid is null or merchant_id = $2))
           select app.revoke_api_key(id) from own`,
          [id, merchant?.id],
        )
        if (!rows.length) {
          const whose = merchant ? `merchant ${merchant.prefix} has` : 'there is'
          throw new PermanentError(`${whose} no key ${given}; sluice key list shows them`)
        }
        return {json: {id: given, revoked: true}, text: `Key ${given} does not work any more.`}
      }),
    )
}
