// Deposits: from transfers to what a merchant is credited, and what a reorganisation does to it.
import type {Mutation} from '../mutation.ts'

export const deposits: Mutation[] = [
  {
    rule: 'A pending deposit whose transfer left is reorged',
    function: 'chain.derive_deposits',
    from: `when not alive and status = 'pending' then array['deposit.reorged']`,
    to: `when false then array['deposit.reorged']`,
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'A deposit whose amount changed is reorged with the old amount and pending with the new one',
    function: 'chain.derive_deposits',
    from: `when alive and status = 'pending' and changed then array['deposit.reorged', 'deposit.pending']`,
    to: `when false then array['deposit.reorged', 'deposit.pending']`,
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'A reorged deposit that is back is pending again',
    function: 'chain.derive_deposits',
    from: `when alive and status = 'reorged' then array['deposit.pending']`,
    to: `when false then array['deposit.pending']`,
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'A final deposit is not changed by the chain',
    function: 'chain.derive_deposits',
    from: `where deposit_id is not null and status <> 'final' and not exists`,
    to: 'where deposit_id is not null and not exists',
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'A final deposit that vanished is an incident',
    function: 'chain.derive_deposits',
    from: `from net where status = 'final' and (not alive or changed or moved)`,
    to: `from net where status = 'final' and alive and (changed or moved)`,
    tests: ['db/derive-deposits.test.ts', 'db/incidents.test.ts'],
  },
  {
    rule: 'A final deposit that moved to another block is an incident',
    function: 'chain.derive_deposits',
    from: `from net where status = 'final' and (not alive or changed or moved)`,
    to: `from net where status = 'final' and (not alive or changed)`,
    tests: ['db/derive-deposits.test.ts', 'db/incidents.test.ts'],
  },
  {
    rule: 'An incident closes when its statement is no longer true',
    function: 'chain.derive_deposits',
    from: `or (i.kind = 'final_deposit_moved' and not n.moved)`,
    to: `or (i.kind = 'final_deposit_moved')`,
    tests: ['db/derive-deposits.test.ts', 'db/incidents.test.ts'],
  },
  {
    rule: 'A different payment at the place of a final deposit is held back',
    function: 'chain.derive_deposits',
    from: `and exists (select from deposit d where d.transfer_id = n.live_id and d.status = 'final')`,
    to: 'and false',
    tests: ['db/derive-deposits.test.ts', 'db/incidents.test.ts'],
  },
  {
    rule: 'What was not asked for, or is of an unknown token, is not credited',
    function: 'chain.derive_deposits',
    from: `'pending', a.is_provisioned and s.token is not null
`,
    to: `'pending', a.is_provisioned
`,
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'An address that was never asked for on a chain credits nobody there',
    function: 'chain.derive_deposits',
    from: `'pending', a.is_provisioned and s.token is not null
`,
    to: `'pending', s.token is not null
`,
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: `At a payment request's address only the requested token is credited`,
    function: 'chain.derive_deposits',
    from: 'and coalesce((select r.token from app.payment_request r where r.id = a.payment_request_id) = n.token, true), 1',
    to: ', 1',
    tests: ['db/payment-requests.test.ts', 'db/derive-deposits.test.ts'],
  },
  {
    rule: 'What our own transactions send to the treasury is no deposit',
    function: 'chain.derive_deposits',
    from: `and not (a.merchant_id is null and exists (select from app.outgoing_attempt o where o.chain = of_chain and o.txid = n.txid))`,
    to: '',
    tests: ['db/derive-deposits.test.ts', 'db/ledger.test.ts', 'db/outputs.test.ts'],
  },
  {
    rule: 'What an address of ours sends is no deposit',
    function: 'chain.derive_deposits',
    from: `and not exists (select from custody.address own where own.address = n.sender)`,
    to: '',
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'What an address of ours sends to a user is not counted as received',
    file: 'indexers/look-up.ts',
    from: ' : ours.has(sender))) return',
    to: ' : false)) return',
    tests: ['indexers/match.test.ts'],
  },
  {
    rule: 'Merchants hear only of what is credited',
    function: 'chain.derive_deposits',
    from: `cross join unnest(x.steps) with ordinality as e (type, n)
    where x.credited`,
    to: `cross join unnest(x.steps) with ordinality as e (type, n)
    where true`,
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'Addresses are compared in their own chain',
    function: 'chain.derive_deposits',
    from: 'where a.chain = of_chain and a.match_key = app.match_key(n.recipient, folds) and a.address = n.recipient offset 0',
    to: 'where a.match_key = app.match_key(n.recipient, folds) and a.address = n.recipient offset 0',
    tests: ['db/derive-deposits.test.ts', 'db/match-key.test.ts'],
  },
  {
    rule: 'Only what is at or below the final height becomes final',
    function: 'chain.finalise_deposits',
    from: `where d.chain = of_chain and d.status = 'pending' and d.block_height <= final_height
`,
    to: `where d.chain = of_chain and d.status = 'pending'
`,
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'Only what is credited, and was not claimed, adds to the balance',
    function: 'chain.finalise_deposits',
    from: `where credited and settlement_id is null
`,
    to: `where settlement_id is null
`,
    tests: ['db/derive-deposits.test.ts', 'db/balances.test.ts'],
  },
  {
    rule: 'A deposit that is back after a payout had claimed it cancels its debt, and adds no balance',
    function: 'chain.finalise_deposits',
    from: `where credited and settlement_id is null
`,
    to: `where credited
`,
    tests: ['db/derive-deposits.test.ts', 'db/ledger.test.ts', 'db/balances.test.ts'],
  },
  {
    rule: 'A deposit that is back cancels the debt that replaced it',
    function: 'chain.finalise_deposits',
    from: `    perform app.adjust(back, back.amount, 'deposit_back');
`,
    to: `    null;
`,
    tests: ['db/ledger.test.ts'],
  },
  {
    rule: 'Each finalisation has a number of its own',
    function: 'chain.finalise_deposits',
    from: `  update chain.cursor c set finalisation = number where c.chain = of_chain;
`,
    to: '',
    tests: ['db/derive-deposits.test.ts', 'db/payouts.test.ts', 'db/balances.test.ts'],
  },
  {
    rule: 'A final deposit stays final',
    function: 'app.refuse_change',
    from: `when (old.status = 'final' and (new.status <> 'final' or new.amount <> old.amount)
    and`,
    to: 'when (false and',
    tests: ['db/derive-deposits.test.ts', 'db/schema.test.ts', 'db/privileges.test.ts'],
  },
  {
    rule: 'A deposit never becomes another one',
    function: 'app.refuse_change',
    from: `when (old.id <> new.id or old.chain <> new.chain or old.txid <> new.txid or old.output_index <> new.output_index
    or old.address <> new.address or old.token <> new.token or`,
    to: 'when (',
    tests: ['db/derive-deposits.test.ts', 'db/schema.test.ts'],
  },
  {
    rule: 'A reorged deposit is never final at once',
    function: 'app.refuse_change',
    from: `(old.status = 'reorged' and new.status = 'final')`,
    to: 'false',
    tests: ['db/derive-deposits.test.ts', 'db/schema.test.ts'],
  },
  {
    rule: 'A credited deposit stays credited',
    function: 'app.refuse_change',
    from: `(old.credited <> new.credited and (old.credited or current_setting('app.decided_by_operator', true) is distinct from 'on'))`,
    to: 'false',
    tests: ['db/derive-deposits.test.ts', 'db/schema.test.ts', 'db/unattributed.test.ts'],
  },
  {
    rule: 'A deposit has the same id whenever its chain is read',
    function: 'app.name_deposit',
    from: 'new.id := app.deposit_id(new.chain, new.txid, new.output_index, new.address, new.token);',
    to: 'new.id := gen_random_uuid();',
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'A deposit that is on the chain is not taken back',
    function: 'app.refuse_to_take_back',
    from: `  if found then
    raise exception 'incident %: its deposit is on the chain`,
    to: `  if false then
    raise exception 'incident %: its deposit is on the chain`,
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'A deposit is not taken back before its block was read again',
    function: 'app.refuse_to_take_back',
    from: 'where c.chain = deposit.chain and c.head_height < deposit.block_height;',
    to: 'where false;',
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'What was taken back after a payout claimed it is a debt',
    function: 'app.take_back',
    from: `    perform app.adjust(deposit, -deposit.amount, 'deposit_lost');
`,
    to: `    null;
`,
    tests: ['db/ledger.test.ts'],
  },
  {
    rule: 'Finality takes the hash',
    function: 'chain.finalise',
    from: 'perform from chain.block b where b.chain = of_chain and b.height = $2 and b.hash = $3;',
    to: 'perform from chain.block b where b.chain = of_chain and b.height = $2;',
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'The final height never falls',
    function: 'chain.finalise',
    from: 'if at.final_height >= height then return at.final_height > height or at.final_hash = hash; end if;',
    to: '',
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'Nothing becomes final while the chain is halted',
    function: 'chain.finalise',
    from: `  if at.halted_at is not null then return false; end if;
`,
    to: '',
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'Nothing is written without the final block',
    function: 'chain.derive',
    from: 'where b.chain = new.chain and b.height = at.final_height and b.hash = at.final_hash;',
    to: 'where b.chain = new.chain;',
    tests: ['db/derive-deposits.test.ts'],
  },
  {
    rule: 'Only an operator has final blocks read again',
    function: 'chain.rewind',
    from: 'if to_height < at.final_height and at.rewind_to is distinct from to_height then',
    to: 'if false then',
    tests: ['db/derive-deposits.test.ts', 'db/incidents.test.ts'],
  },
  {
    rule: 'A payment that was final and whose block is read again is an incident',
    function: 'chain.rewind',
    from: `where i.chain = of_chain and i.block_height > to_height and s.status = 'final' and app.is_booked(s, i.txid)
`,
    to: `where false
`,
    tests: ['db/incidents.test.ts', 'db/ledger.test.ts', 'db/outputs.test.ts'],
  },
  {
    rule: 'A chain stays halted while an incident that halts it is open',
    function: 'chain.go_on',
    from: `    and not exists (select from app.open_incident i where i.chain = of_chain and i.halts)
`,
    to: '',
    tests: ['db/incidents.test.ts'],
  },
]
