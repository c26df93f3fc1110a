// Payouts: what is claimed, what is paid, and what custody signs on every chain.
import type {Mutation} from '../mutation.ts'

export const payouts: Mutation[] = [
  {
    rule: 'What custody signed is stored only if a second library reads what was asked',
    file: 'jobs/payouts/sign-attempts.ts',
    from: '  if (wrong) return await waitOutgoingPayment(to, outgoingPayment.id, wrong)\n',
    to: '',
    tests: ['jobs/payouts/sign-attempts.test.ts'],
  },
  {
    rule: 'A used idempotency key gives the same response',
    function: 'app.create_payout',
    from: `      return duplicate.body;
`,
    to: '',
    tests: ['api/payouts.test.ts', 'db/payouts.test.ts'],
  },
  {
    rule: 'A used idempotency key refuses another request',
    function: 'app.create_payout',
    from: 'if duplicate.request_hash <> of_request then',
    to: 'if false then',
    tests: ['api/payouts.test.ts'],
  },
  {
    rule: 'A payout reads the balance with its pair locked',
    function: 'app.create_payout',
    from: `  perform app.lock_pair(of_merchant, of_chain, of_token);

`,
    to: `
`,
    tests: ['db/payouts.test.ts', 'api/payouts.test.ts'],
  },
  {
    rule: 'No payout begins while its chain is stopped',
    function: 'app.create_payout',
    from: 'from app.why_halted(of_chain) why where why is not null;',
    to: 'from app.why_halted(of_chain) why where false;',
    tests: ['api/payouts.test.ts', 'db/payouts.test.ts'],
  },
  {
    rule: 'No payout goes to an address of ours',
    function: 'app.create_payout',
    from: `  from custody.address o where o.address = destination;
`,
    to: `  from custody.address o where false;
`,
    tests: ['api/payouts.test.ts', 'db/payouts.test.ts'],
  },
  {
    rule: 'Nothing is paid out of nothing, or less',
    function: 'app.create_payout',
    from: `  if at.gross <= 0 then
`,
    to: `  if false then
`,
    tests: ['api/payouts.test.ts', 'db/payouts.test.ts', 'db/ledger.test.ts'],
  },
  {
    rule: 'No payout is smaller than the smallest',
    function: 'app.create_payout',
    from: 'if at.gross - div(at.gross * rate, 10000) < asset.min_payout then',
    to: 'if false then',
    tests: ['api/payouts.test.ts', 'db/payouts.test.ts'],
  },
  {
    rule: 'The fee is rounded down',
    function: 'app.create_payout',
    from: 'values (of_merchant, of_chain, of_token, at.gross, rate, div(at.gross * rate, 10000), at.gross - div(at.gross * rate, 10000), destination,',
    to: 'values (of_merchant, of_chain, of_token, at.gross, rate, ceil(at.gross * rate / 10000), at.gross - ceil(at.gross * rate / 10000), destination,',
    tests: ['api/payouts.test.ts', 'db/payouts.test.ts'],
  },
  {
    rule: 'A payout claims what the balance was, once',
    function: 'app.create_payout',
    from: 'values (of_merchant, of_chain, of_token, -at.gross, -at.deposit_count);',
    to: 'values (of_merchant, of_chain, of_token, 0, 0);',
    tests: ['db/payouts.test.ts', 'api/payouts.test.ts'],
  },
  {
    rule: 'A claim takes only what was final by then',
    function: 'app.allocate_deposits',
    from: 'and d.settlement_id is null and coalesce(d.released, d.finalisation) <= op.cutoff\n',
    to: 'and d.settlement_id is null\n',
    tests: ['db/payouts.test.ts', 'db/collectable.test.ts'],
  },
  {
    rule: 'A deposit is claimed by one payout',
    function: 'app.allocate_deposits',
    from: 'and d.settlement_id is null and coalesce(d.released, d.finalisation) <= op.cutoff\n',
    to: 'and coalesce(d.released, d.finalisation) <= op.cutoff\n',
    tests: ['db/payouts.test.ts'],
  },
  {
    rule: 'Claims and releases are carried out in order',
    function: 'app.allocate_deposits',
    from: 'and c.finished_at is null order by c.id limit 1;',
    to: 'and c.finished_at is null order by c.id desc limit 1;',
    tests: ['db/payouts.test.ts'],
  },
  {
    rule: 'An allocation whose sum is wrong stops',
    function: 'app.allocate_deposits',
    from: 'if at.n < batch and (found_count, found_amount) <> (op.deposit_count, op.amount) then',
    to: 'if false then',
    tests: ['db/payouts.test.ts'],
  },
  {
    rule: 'A deposit that is lost later counts in its payout as it was claimed',
    function: 'app.payout_parts',
    from: `case when count(*) = 0 then d.amount else case d.status when 'final' then d.amount else 0 end - sum(a.amount) end`,
    to: 'd.amount + 0 * count(*)',
    tests: ['api/payout-deposits.test.ts', 'db/money.test.ts'],
  },
  {
    rule: 'What a payout is made of includes its adjustments',
    function: 'app.payout_parts',
    from: 'where a.settlement_id = of_payout and a.position < below',
    to: 'where false',
    tests: ['api/payout-deposits.test.ts', 'db/money.test.ts'],
  },
  {
    rule: 'A part of what a payout is made of is not shown for the whole',
    function: 'app.listed_payout',
    from: 'where c.payout_id = p.id and c.finished_at is null;',
    to: 'where false;',
    tests: ['api/payout-deposits.test.ts', 'db/money.test.ts'],
  },
  {
    rule: 'A failed payout is made of nothing',
    function: 'app.listed_payout',
    from: `  if p.status = 'failed' then return null; end if;
`,
    to: '',
    tests: ['api/payout-deposits.test.ts', 'db/money.test.ts'],
  },
  {
    rule: 'What a payout is made of is for its own merchant only',
    function: 'app.listed_payout',
    from: 'where o.id = of_payout and o.merchant_id = of_merchant;',
    to: 'where o.id = of_payout;',
    tests: ['api/payout-deposits.test.ts'],
  },
  {
    rule: 'Payee, amount and address of a payout never change',
    function: 'app.check_payout_change',
    from: `if (new.id, new.merchant_id, new.chain, new.token, new.gross, new.fee, new.net, new.address)
    is distinct from (old.id, old.merchant_id, old.chain, old.token, old.gross, old.fee, old.net, old.address)
    or (`,
    to: 'if (',
    tests: ['db/payouts.test.ts', 'db/schema.test.ts'],
  },
  {
    rule: `A payout's status moves only forward`,
    function: 'app.check_payout_change',
    from: `('pending', 'failed'), ('sweeping', 'failed'), ('swept', 'failed'), ('paying', 'failed'))) then`,
    to: `('pending', 'failed'), ('sweeping', 'failed'), ('swept', 'failed'), ('paying', 'failed'), ('failed', 'pending'), ('completed', 'failed'))) then`,
    tests: ['db/payouts.test.ts', 'db/schema.test.ts'],
  },
  {
    rule: 'A payout whose money may have left does not fail',
    function: 'app.fail_payout',
    from: 'from app.attempt_fate',
    to: 'from (select * from app.attempt_fate where false)',
    tests: ['db/expire.test.ts', 'db/payment-life.property.test.ts', 'test/faults/expiring-attacker.test.ts'],
  },
  {
    rule: `A merchant is not paid from another merchant's money`,
    function: 'app.operator_funds',
    from: '- coalesce((select sum(amount - reserved) from app.treasury_share where chain = of_chain and token = of_token and amount > reserved), 0)',
    to: '',
    tests: ['db/ledger.test.ts'],
  },
  {
    rule: 'Custody signs only for the whitelist',
    file: 'custody/judge/payments.ts',
    from: `  if (!is_whitelisted)
`,
    to: `  if (false)
`,
    tests: ['test/faults/attacker.test.ts'],
  },
  {
    rule: 'Custody pays no address of ours',
    file: 'custody/judge/payments.ts',
    from: '  if (is_ours) throw',
    to: '  if (false) throw',
    tests: ['custody/evm/plan.test.ts'],
  },
  {
    rule: 'A payout keeps what its first signature paid, and whom',
    file: 'custody/judge/payments.ts',
    from: '  if (before.some(was => was.amount',
    to: '  if (before.some(was => false && was.amount',
    tests: ['test/faults/attacker.test.ts'],
  },
  {
    rule: 'Custody signs only what is gross less the fee',
    file: 'custody/judge/payments.ts',
    from: 'if (BigInt(net) !== BigInt(gross) - BigInt(fee) || BigInt(net) <= 0n || BigInt(fee) < 0n)',
    to: 'if (false)',
    tests: ['test/faults/attacker.test.ts'],
  },
  {
    rule: 'Custody signs nothing above the limit of one payout',
    file: 'custody/judge/limits.ts',
    from: 'if (limit !== undefined && amount > limit)',
    to: 'if (false)',
    tests: ['test/faults/attacker.test.ts'],
  },
  {
    rule: 'Custody signs nothing above the limit of a day',
    file: 'custody/judge/limits.ts',
    from: `  if (signed + amount > daily)
    throw`,
    to: `  if (false)
    throw`,
    tests: ['test/faults/attacker.test.ts'],
  },
  {
    rule: 'Custody signs only known tokens',
    file: 'custody/judge/plan.ts',
    from: '  if (!asset) throw',
    to: '  if (!chains) throw',
    tests: ['custody/evm/plan.test.ts'],
  },
]
