// What a merchant's editor says: `npm run check` compiles this. Amounts are strings, an event is known by its type, and
// what the API does not know is refused before it is sent.
import {expectTypeOf, test} from 'vitest'
import type {Deposit, Event, EventOf, List, Payout, Sluice} from './index.ts'

test('amounts are strings, never numbers', () => {
  expectTypeOf<Deposit['amount']>().toEqualTypeOf<string>()
  expectTypeOf<Payout['net']>().toEqualTypeOf<string>()
  expectTypeOf<EventOf<'deposit.confirmed'>['amount']>().toEqualTypeOf<string>()
  expectTypeOf<EventOf<'payment_request.paid'>['shortfall']>().toEqualTypeOf<string>()
})

test('an event is known by its type', () => {
  const handle = (event: Event) => {
    if (event.type === 'deposit.confirmed') expectTypeOf(event.user.external_ref).toEqualTypeOf<string>()
    if (event.type === 'payout.failed') expectTypeOf(event.error.message).toEqualTypeOf<string>()
    if (event.type === 'payout.completed') expectTypeOf(event.txid).toEqualTypeOf<string>()
    // @ts-expect-error: not every event is of a user
    return event.user
  }
  expectTypeOf(handle).parameter(0).toEqualTypeOf<Event>()
})

test('filters take what the list can be asked for, and nothing else', () => {
  const ask = (sluice: Sluice) => {
    sluice.deposits.list({status: 'final', chain: 'ETH', amount_from: '5', token: 'USDC'})
    sluice.deposits.list({status: ['final', 'pending']})
    sluice.events.list({type: ['deposit.confirmed', 'payment_request.paid']})
    // @ts-expect-error: there is no such status
    sluice.deposits.list({status: 'settled'})
    // @ts-expect-error: an amount is a string
    sluice.deposits.list({amount_from: 5})
    // @ts-expect-error: the list goes on by itself
    sluice.deposits.list({cursor: 'x'})
    // @ts-expect-error: a payout takes the whole balance
    sluice.payouts.create({chain: 'ETH', token: 'USDC', amount: '5'})
    // @ts-expect-error: there is no such event
    sluice.events.follow({after: 'evt_1', type: 'deposit.settled'})
    return sluice.deposits.list()
  }
  expectTypeOf(ask).returns.toEqualTypeOf<List<Deposit>>()
})
