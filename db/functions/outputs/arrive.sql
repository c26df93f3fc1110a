-- Outputs: the money that can be spent on a chain that has outputs instead of accounts (Bitcoin), in app.output. This file: which chains have
-- outputs, and when an output becomes spendable for us. chain.finalise_deposits calls it at COMMIT, for the deposits that are about to be final. The
-- output of an unattributed deposit is added only when an operator credits it.
--
-- An outgoing payment (app.outgoing_payment) uses outputs there, not a nonce: its first input, which every attempt has
-- (app.outgoing_payment.first_input), and others. Attempts only ever add inputs. So at most one of them can be mined, as with a nonce. One transaction sweeps and pays:
-- it takes in what deposit addresses hold, pays the net to the merchant and sends the rest to the treasury.
--
-- Writers: this file and app.credit_unattributed (final outputs), the functions that begin outgoing payments (reserve them), outputs/finish.sql
-- (spent, and the change), app.take_back (gone), `sluice custody reconcile`. Readers: the worker, which chooses among free outputs
-- (app.free_output).
-- Invariants: an output is here once, from the moment that it is final and in the ledger. One outgoing payment at a time has it reserved, and keeps
-- it if it spends it. The unspent outputs of an address add up to its app.holding, those of the treasury to its balance.
-- Locks: chain.cursor, which the caller holds.

-- Runs before outgoing payments are finished: an older copy of the database may read an output and the transaction that spent it at once.
create or replace function app.add_outputs(of_chain text, final_height int) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.output (chain, txid, vout, address, merchant_id, amount, mature_at)
  select d.chain, d.txid, d.output_index, d.address, case when d.credited then d.merchant_id end, d.amount, app.mature_at(d)
  from app.deposit d
  where d.chain = of_chain and d.status = 'pending' and d.block_height <= final_height and (d.credited or d.merchant_id is null)
  on conflict do nothing;
  perform app.reserve_cpfp_outputs(of_chain);
  if exists (select from app.outgoing_payment s where s.chain = of_chain and s.recovered and s.status <> 'final') then
    perform custody.reserve_recovered(of_chain);
  end if;
end $$;
comment on function app.add_outputs is 'Adds the outputs that become final at this height, and reserves those of a CPFP child for it.';


create or replace function app.uses_outputs(of_chain text) returns boolean
language sql stable set search_path = pg_catalog as $$
  select coalesce((select attempts_exclude_by = 'output' from app.chain where chain = of_chain), false)
$$;
comment on function app.uses_outputs is 'Whether transactions of a chain spend outputs (Bitcoin) rather than balances of accounts.';


create or replace function app.mature_at(d app.deposit) returns int
language sql stable set search_path = pg_catalog as $$
  select d.block_height + c.coinbase_maturity from app.chain c where c.chain = d.chain and c.coinbase_sender = d.sender
$$;
comment on function app.mature_at is 'The head from which on nodes let the output of a deposit be spent; null if at once.';

