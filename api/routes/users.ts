// Users and their addresses.
import {z} from 'zod'
import {Address, chainList, externalRef, id, metadata, pageOf, pageQuery, uuidOf} from '../../reading/fields.ts'
import {User, userShape} from '../../reading/users.ts'
import type {App, Context} from '../app.ts'
import {statement} from '../database.ts'
import {changeErrors, errors} from '../error-codes.ts'
import {notFound} from '../errors.ts'
import {listOf, objectStatement, pageOfList} from '../page.ts'
import {withAddresses} from '../pool.ts'

const provisionUser = statement('provision_user', 'select created, body from app.provision_user($1, $2, $3, $4)')
const provisionAddresses = statement(
  'provision_addresses',
  'select created, body from app.provision_addresses($1, $2, $3)',
)

export const list = listOf('users', 'app.read_users')
const findUser = objectStatement('app.read_user')

const updateUser = statement('update_user', 'select app.update_user($1, $2, $3)')

const NewUser = z.object(userShape).meta({id: 'NewUser'})
const UserAddresses = z.object({id: id('usr'), addresses: z.array(Address)}).meta({id: 'UserAddresses'})

export function users(app: App, {db}: Context): void {
  app.post(
    '/v1/users',
    {
      config: {scope: 'users'},
      schema: {
        tags: ['Users'],
        summary: 'Create or find a user',
        operationId: 'createUser',
        description:
          'Gives the user a persistent deposit address on each chain. Idempotent on `external_ref`: the same reference is the same ' +
          'user, and addresses that are missing are added.',
        body: z
          .object({
            external_ref: externalRef,
            chains: chainList.optional().describe('Omitted: all chains that are enabled for the account.'),
            metadata: metadata.optional().describe('Only for a new user; PATCH changes it.'),
          })
          .meta({examples: [{external_ref: 'customer-42', chains: ['ETH', 'POLYGON']}]}),
        response: {
          201: NewUser.describe('Created.'),
          200: NewUser.describe('The user existed already.'),
          ...changeErrors('chain_not_enabled'),
        },
      },
    },
    async (request, reply) => {
      const {external_ref, chains, metadata} = request.body
      const [created, body] = await withAddresses<[boolean, string]>(db.of(request.merchantId), provisionUser, [
        request.merchantId,
        external_ref,
        chains ?? null,
        metadata ? JSON.stringify(metadata) : null,
      ])
      return reply.code(created ? 201 : 200).send(body)
    },
  )

  app.get(
    '/v1/users',
    {
      schema: {
        tags: ['Users'],
        summary: 'List users',
        operationId: 'listUsers',
        querystring: z.object({external_ref: externalRef.optional(), ...pageQuery}),
        response: {200: pageOf('users', User), ...errors()},
      },
    },
    ({merchantId, query}) => {
      const asked = {external_ref: query.external_ref}
      return pageOfList(db.of(merchantId), list, {merchantId, asked, query})
    },
  )

  app.get(
    '/v1/users/:id',
    {
      schema: {
        tags: ['Users'],
        summary: 'Get a user',
        operationId: 'getUser',
        params: z.object({id: id('usr')}),
        response: {200: User.describe('The user.'), ...errors('user_not_found')},
      },
    },
    ({merchantId, params}) => userOf(merchantId, uuidOf('usr', params.id)),
  )

  app.patch(
    '/v1/users/:id',
    {
      config: {scope: 'users'},
      schema: {
        tags: ['Users'],
        summary: 'Change a user',
        operationId: 'updateUser',
        description: 'Replaces the whole of `metadata`. Events that were made already keep the old one.',
        params: z.object({id: id('usr')}),
        body: z.object({metadata: metadata.optional()}).meta({examples: [{metadata: {plan: 'gold'}}]}),
        response: {200: User.describe('The user as it is now.'), ...changeErrors('user_not_found')},
      },
    },
    async ({merchantId, params, body}) => {
      const user = uuidOf('usr', params.id)
      if (!user) throw notFound('user')
      await db
        .of(merchantId)
        .change(updateUser, [merchantId, user, body.metadata ? JSON.stringify(body.metadata) : null])
      return userOf(merchantId, user)
    },
  )

  app.post(
    '/v1/users/:id/addresses',
    {
      config: {scope: 'users'},
      schema: {
        tags: ['Users'],
        summary: 'Add addresses to a user',
        operationId: 'addAddresses',
        description: 'If the user already has an address on a chain, that address stays.',
        params: z.object({id: id('usr')}),
        body: z.object({chains: chainList}).meta({examples: [{chains: ['POLYGON']}]}),
        response: {
          201: UserAddresses.describe('An address was added. All addresses of the user.'),
          200: UserAddresses.describe('The user had all of them already.'),
          ...changeErrors('user_not_found', 'chain_not_enabled'),
        },
      },
    },
    async (request, reply) => {
      const user = uuidOf('usr', request.params.id)
      if (!user) throw notFound('user')
      const [created, body] = await withAddresses<[boolean, string]>(db.of(request.merchantId), provisionAddresses, [
        request.merchantId,
        user,
        request.body.chains,
      ])
      return reply.code(created ? 201 : 200).send(body)
    },
  )

  async function userOf(merchantId: string, user?: string): Promise<string> {
    const found = user && (await db.of(merchantId).read<[string]>(findUser, [merchantId, user]))
    if (!found) throw notFound('user')
    return found[0]
  }
}
