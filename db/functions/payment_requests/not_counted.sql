-- What came at the address of a payment request and does not pay it: another token, another chain, and what left the chain again. People who have its
-- transaction id ask their shop for it. Reads only.

create or replace function app.not_counted(of_request uuid) returns table (txid text, what text, why text, at timestamptz, is_open boolean)
language sql stable security definer rows 1 set search_path = pg_catalog as $$
  select d.txid, app.in_words(d.amount, d.token, a.decimals)
      || case when d.chain <> r.chain then ' on ' || d.chain else '' end,
    case when d.status = 'reorged' then 'its block left the chain (a reorganisation), and it counts again if another block takes it'
      when d.credited then 'it was not asked for, and the operator added it to the balance'
      when s.id is not null then 'it was not asked for, and the operator has sent it back'
      when o.decision = 'return' then 'it was not asked for, and the operator sends it back'
      else app.words_of_unattributed(app.why_unattributed(app.is_from_protocol(d.transfer_kind, d.output_index, d.token), a.token is not null,
        d.chain = r.chain, d.token, r.token)) end,
    d.created_at, d.status <> 'reorged' and not d.credited and o.decision is null and a.token is not null and not app.is_dismissed(d)
  from app.payment_request r
  join app.deposit d on d.payment_request_id = r.id
  left join app.asset a on a.chain = d.chain and a.token = d.token
  left join app.unattributed_decision o on o.deposit_id = d.id
  left join app.outgoing_payment s on s.id = o.withdrawal_id and s.outcome = 'done'
  where r.id = of_request and (d.status = 'reorged' or not d.credited or (d.chain, d.token) <> (r.chain, r.token))
  order by a.token is null, d.seq desc limit 20 -- tokens that nobody knows are as a rule spam
$$;
comment on function app.not_counted is 'What came at the address of a payment request and does not pay it, and why, in words that follow a colon: the newest twenty, known tokens first. is_open: it waits for somebody to decide about it.';

create or replace function app.in_words(amount numeric, token text, decimals int) returns text
language sql immutable parallel safe
return coalesce(app.decimal(amount, decimals) || ' ' || token, amount || ' base units of the token ' || token);
comment on function app.in_words is 'An amount with its token; decimals: null of a token that is not known.';

create or replace function app.operator_can() returns text
language sql immutable parallel safe
return '; ask the operator, who can add it to the balance, or send it back where the chain allows that';
comment on function app.operator_can is 'Whom to ask about what came and is not credited.';

create or replace function app.words_of_unattributed(reason text) returns text
language sql immutable parallel safe
return case reason
  when 'protocol' then 'the rules of the chain paid it, without a transaction'
  when 'unsupported_token' then 'its token is not accepted here, and is out of reach until the operator adds it'
  when 'chain_not_requested' then 'its address was not asked for on that chain' || app.operator_can()
  when 'wrong_token' then 'another token was asked for' || app.operator_can()
  else 'its token was not accepted yet when it came' || app.operator_can() end;
comment on function app.words_of_unattributed is 'A reason of app.why_unattributed, in words.';
grant execute on function app.not_counted to sluice_api;
