// How many signatures one request to custody asks for, and what is stored of them.
import {expect, test} from 'vitest'
import {z} from 'zod'
import {silent} from '../../base/log.ts'
import {reasonOf} from '../../base/reasons.ts'
import type {Context, PayoutChain, PlannedAttempt} from './context.ts'
import {responses, type Signed} from './custody-client.ts'
import type {OutgoingPayment} from './outgoing-payments.ts'
import {signAndStore} from './sign-attempts.ts'

/** An attempt with this number of inputs. */
interface Large extends PlannedAttempt {
  inputs: string[]
}

function large(id: string, inputs: number): Large {
  return {
    outgoingPayment: {id, maxFee: 0n} as OutgoingPayment,
    kind: 'effect',
    inputs: Array(inputs).fill(`${'f'.repeat(64)}:0`),
  }
}

test('a request to custody holds up to about 2,000 inputs, in order, and its signatures are stored before the next, but none that does something else', async () => {
  const done: string[] = []
  const chain: Pick<PayoutChain<Large>, 'intentOf' | 'readSigned'> = {
    intentOf: ({outgoingPayment: {id}, inputs}) => ({id, inputs}),
    readSigned: async (_to, {outgoingPayment: {id}}) => ({
      asked: {amount: '5'},
      says: {amount: id === 'e' ? '6' : '5'},
    }),
  }
  const to = {
    custody: {
      sign: async (intents: {id: string}[]): Promise<Signed[]> => {
        done.push(`sign ${intents.map(({id}) => id).join(' ')}`)
        return intents.map(({id}) => ({ok: true, txid: id, raw: '', amount: '0', feeDetails: {}, maxFee: 0n}))
      },
    },
    pool: {
      query: async (sql: string, [id]: string[]) => {
        done.push(`${/app\.(\w+)/.exec(sql)![1]} ${id}`)
        return {rows: [{is_stored: id !== 'd'}]}
      },
    },
    log: silent(),
  } as unknown as Context
  const planned = [large('a', 900), large('b', 900), large('c', 500), large('d', 5000), large('e', 1)]
  const stored = await signAndStore(to, chain as PayoutChain, planned)
  expect(done).toEqual([
    'sign a b',
    'store_signed a',
    'store_signed b',
    'sign c',
    'store_signed c',
    'sign d',
    'store_signed d',
    'wait_outgoing_payment d',
    'sign e',
    'note_signed_otherwise e',
    'wait_outgoing_payment e',
  ])
  expect([...stored.keys()]).toEqual(['a', 'b', 'c'])
})

test('a refusal that a newer custody has is a reason to wait, and what it signed beside it counts', () => {
  const signed = z.object({ok: z.literal(true)}).transform((): Signed => {
    return {ok: true, txid: 'a', raw: '', amount: '0', feeDetails: {}, maxFee: 0n}
  })
  const results = [{ok: true}, {ok: false, code: 'of_a_newer_version', message: 'no'}]
  expect(responses(signed, z.never()).parse({results}).results).toMatchObject([
    {txid: 'a'},
    {code: 'error', message: 'no'},
  ])
  expect(reasonOf('of_a_newer_version' as never).ends).toBe('by itself')
})
