-- A row is an account whose nonces are not exactly those below the next one: in app.outgoing_payment by app.sender, or in the blocks by the highest
-- one there.
create or replace view audit.nonces as
select n.chain, n.address, n.next_nonce, count(s.id) as used from app.sender n
left join app.outgoing_payment s on s.chain = n.chain and s.fee_payer = n.address
group by n.chain, n.address having count(s.id) <> n.next_nonce or max(s.nonce) >= n.next_nonce
union all
select chain, account, max(nonce) + 1, count(distinct nonce) from chain.confirmed_tx where nonce is not null
group by chain, account having count(distinct nonce) <> max(nonce) + 1;
comment on view audit.nonces is 'the nonces of each account have no gap, in our books and in what the chain holds';
comment on column audit.nonces.address is 'The account.';
comment on column audit.nonces.next_nonce is 'The next nonce: in our books, or after the highest one in a block.';
comment on column audit.nonces.used is 'How many nonces below it are used, in the same place.';
