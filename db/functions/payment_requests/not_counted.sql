-- What came at the address of a payment request and does not pay it: another token, another chain, and what left the chain again. People who have its
-- transaction id ask their shop for it. Reads only.

create or replace function app.not_counted(of_request uuid) returns table (txid text, what text, why text, at timestamptz, is_reorged boolean)
language sql stable security definer rows 1 set search_path = pg_catalog as $$
  select d.txid, coalesce(app.decimal(d.amount, a.decimals) || ' ' || d.token, d.amount || ' base units of the token ' || d.token)
      || case when d.chain <> r.chain then ' on ' || d.chain else '' end,
    case when d.status = 'reorged' then 'its block left the chain (a reorganisation), and it counts again if another block takes it'
      when d.credited then 'it was not asked for, and the operator added it to the balance'
      when s.id is not null then 'it was not asked for, and the operator has sent it back'
      when o.decision = 'return' then 'it was not asked for, and the operator sends it back'
      else app.words_of_unattributed(app.why_unattributed(app.is_from_protocol(d.transfer_kind, d.output_index, d.token), a.token is not null,
        d.chain = r.chain, d.token, r.token)) || ': ask the operator, who can add it to the balance or send it back' end,
    d.created_at, d.status = 'reorged'
  from app.payment_request r
  join app.deposit d on d.payment_request_id = r.id
  left join app.asset a on a.chain = d.chain and a.token = d.token
  left join app.unattributed_decision o on o.deposit_id = d.id
  left join app.outgoing_payment s on s.id = o.withdrawal_id and s.outcome = 'done'
  where r.id = of_request and (d.status = 'reorged' or not d.credited or (d.chain, d.token) <> (r.chain, r.token))
  order by d.seq limit 20
$$;
comment on function app.not_counted is 'What came at the address of a payment request and does not pay it, and why, in words that follow a colon: the first twenty.';

create or replace function app.words_of_unattributed(reason text) returns text
language sql immutable parallel safe
return case reason
  when 'protocol' then 'the rules of the chain paid it, without a transaction'
  when 'unsupported_token' then 'its token is not accepted here'
  when 'chain_not_requested' then 'its address was not asked for on that chain'
  when 'wrong_token' then 'another token was asked for'
  else 'its token was not accepted yet when it came' end;
comment on function app.words_of_unattributed is 'A reason of app.why_unattributed, in words.';
grant execute on function app.not_counted, app.words_of_unattributed to sluice_api;
