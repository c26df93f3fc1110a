-- What an outgoing payment (app.outgoing_payment: the payment of a payout, a sweep or a withdrawal) takes before anything is signed: the treasury's
-- locks, a part of its money, and a nonce. The functions that begin an outgoing payment, raise its fee or end it call these in their transaction.
--
-- Its statuses: allocated (money and nonce are taken, in a committed row; nothing is signed), live (an attempt is signed and stored; only now may
-- its bytes be broadcast, again and again), final (a transaction with its nonce is final, whichever it was). Its attempts share the nonce, so at
-- most one of them can ever be mined. A process that dies between two steps leaves a row that says what to do next.
--
-- Invariants: the nonces of an address are handed out in order and without a gap, because its row in app.sender stays locked until COMMIT, and a
-- rollback gives the nonce back. What is reserved is not the operator's to use (app.operator_funds).
-- Locks, always in this order: chain.cursor, payout, treasury, sender, outgoing payment, pair (advisory), deposits.

create or replace function app.lock_treasury(of_chain text) returns void
language plpgsql set search_path = pg_catalog as $$
begin
  insert into app.treasury (chain, token) select a.chain, a.token from app.asset a where a.chain = of_chain on conflict do nothing;
  perform from app.treasury t where t.chain = of_chain order by t.token for update;
end $$;
comment on function app.lock_treasury is 'Locks the treasury of a chain until COMMIT: the rows of all its tokens, in the order of their codes. Rows that are missing are made.';


create or replace function app.reserve(of_chain text, of_token text, more numeric) returns void
language sql set search_path = pg_catalog as $$
  update app.treasury set reserved = reserved + more where chain = of_chain and token = of_token
$$;
comment on function app.reserve is 'Reserves an amount of a token in the treasury, in base units; a negative amount gives it back.';


create or replace function app.take_nonce(of_chain text, of_sender text) returns int
language sql set search_path = pg_catalog as $$
  insert into app.sender as s (chain, address, next_nonce)
  select c.chain, of_sender, 1 from app.chain c where c.chain = of_chain and c.attempts_exclude_by = 'nonce'
  on conflict (chain, address) do update set next_nonce = s.next_nonce + 1
  returning next_nonce - 1
$$;
comment on function app.take_nonce is 'Takes the next nonce of an address of ours on a chain, and returns it; the first one is 0. Null on chains without nonces.';

