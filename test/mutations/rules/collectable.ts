// What is held back, and when a payout can collect it.
import type {Mutation} from '../mutation.ts'

const file = 'db/functions/balances/collectable.sql'
const tests = ['db/collectable.test.ts']

export const collectable: Mutation[] = [
  {
    rule: 'A deposit that is not worth a sweep is held back',
    file,
    from: 'coalesce(d.amount < (select',
    to: 'coalesce(d.amount < 0 and 0 < (select',
    tests,
  },
  {
    rule: 'A payout claims nothing that is held back',
    file: 'db/functions/payouts/allocate.sql',
    from: ' and not d.held_back\n',
    to: '\n',
    tests,
  },
  {
    rule: 'What a sweep under way takes does not count for later deposits',
    file,
    from: `s.kind = 'sweep' and s.status <> 'final'
        and s.merchant_id`,
    to: `s.kind = 'none' and s.status <> 'final'
        and s.merchant_id`,
    tests,
  },
  {
    rule: 'The fee that an address pays for its own sweep does not count either',
    file,
    from: 'case when s.fee_payer = s.source then s.max_fee else 0 end',
    to: '0',
    tests,
  },
  {
    rule: 'All deposits of an address are collectable once it holds the minimum',
    file,
    from: 'else p.unswept >= p.sweep_min or',
    to: 'else h.amount >= p.sweep_min or',
    tests,
  },
  {
    rule: 'What was swept is collectable',
    file,
    from: 'or (h.with_newer > p.holds and p.holds >= 0)',
    to: '',
    tests,
  },
  {
    rule: 'What becomes collectable gets a number above every claim made before',
    file,
    from: 'update app.deposit d set held_back = false, finalisation = number where',
    to: 'update app.deposit d set held_back = false where',
    tests,
  },
  {
    rule: 'What becomes collectable leaves what is held back of the balance',
    file,
    from: 'token, 0, 0, -sum(amount), -count(*) from released',
    to: 'token, 0, 0, 0, 0 from released',
    tests,
  },
  {
    rule: 'A sweep that ends without effect gives its amount back to its address',
    file: 'db/functions/outgoing/finish_payments.sql',
    from: '    perform app.release_after_sweep(s);\n',
    to: '',
    tests,
  },
  {
    rule: 'An output that is spent is not held back',
    file,
    from: 'and u.vout = h.output_index and u.spent_by is not null)\n    else',
    to: 'and u.vout = h.output_index and u.spent_by is not null and false)\n    else',
    tests: ['db/outputs.test.ts'],
  },
  {
    rule: 'A higher minimum changes nothing that counted',
    file,
    from: 'if before is null then\n',
    to: 'if before is null or before < of_amount then\n',
    tests,
  },
  {
    rule: 'A lower minimum makes collectable what is worth a sweep now',
    file,
    from: 'elsif of_amount < before then',
    to: 'elsif false then',
    tests,
  },
  {
    rule: 'In an older database, what was swept stays collectable',
    file,
    from: 's.with_newer <= h.amount and ',
    to: '',
    tests,
  },
  {
    rule: 'A payout from before that fails does not give back as collectable what no sweep brings',
    file: 'db/functions/payouts/fail.sql',
    from: 'coalesce(sum(d.amount), 0), count(*)\n',
    to: '0, 0\n',
    tests,
  },
  {
    rule: 'Only addresses with money that counts are swept for a payout',
    file: 'db/functions/payouts/sweep.sql',
    from: `        and app.collectable_amount(h.chain, h.address, h.token) > 0
        and app.sweep_under_way(h.chain, h.token, h.address) is null
      order by h.amount desc limit most;
  end if;`,
    to: `        and app.sweep_under_way(h.chain, h.token, h.address) is null
      order by h.amount desc limit most;
  end if;`,
    tests,
  },
  {
    rule: 'A deposit that is taken back leaves what is held back',
    file: 'db/functions/deposits/take_back.sql',
    from: 'case when was_held_back then -deposit.amount else 0 end, case when was_held_back then -1 else 0 end',
    to: '0, 0',
    tests,
  },
  {
    rule: 'The fee is that of what is not held back',
    file: 'db/views/api/merchant_balance.sql',
    from: 'greatest(b.amount - b.held_back, 0)',
    to: 'greatest(b.amount, 0)',
    tests,
  },
  {
    rule: 'A payment request below the minimum is refused',
    file: 'db/functions/payment_requests/create.sql',
    from: '10::numeric ^ asset.decimals < asset.sweep_min then',
    to: '10::numeric ^ asset.decimals < 0 then',
    tests: ['api/payment-requests.test.ts'],
  },
  {
    rule: 'A recovered payout gets what was collectable at its time',
    file: 'db/functions/payouts/after_restore.sql',
    from: 'greatest(block_height, min(block_height)',
    to: 'least(block_height, min(block_height)',
    tests: ['db/restored-payouts.test.ts'],
  },
  {
    rule: 'Custody signs the sweep of what counts, though it is below the minimum now',
    file: 'custody/evm/judge.ts',
    from: '  if (counts > 0n && BigInt(amount) >= counts) return\n',
    to: '',
    tests: ['custody/evm/judge.test.ts'],
  },
  {
    rule: 'Custody signs no sweep of what is held back',
    file: 'custody/evm/judge.ts',
    from: '  if (!isNative) await checkAmount(context, intent)\n',
    to: '',
    tests: ['custody/evm/judge.test.ts'],
  },
]
