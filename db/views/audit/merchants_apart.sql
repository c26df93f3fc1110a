-- custody.address has the merchant that each address was handed to, once and for ever. A row is an address or a deposit that names another merchant.
create or replace view audit.merchants_apart as
select a.chain, a.address as what, a.merchant_id, o.merchant_id as handed_to from app.address a left join custody.address o on o.address = a.address
where a.merchant_id is distinct from o.merchant_id
union all
select d.chain, d.id::text, d.merchant_id, o.merchant_id from app.deposit d left join custody.address o on o.address = d.address
where d.merchant_id is distinct from o.merchant_id;
comment on view audit.merchants_apart is 'addresses and deposits belong to the merchant to whom the address was handed';
comment on column audit.merchants_apart.what is 'The address, or the id of the deposit.';
comment on column audit.merchants_apart.merchant_id is 'The merchant that it is booked to; null for the treasury.';
comment on column audit.merchants_apart.handed_to is 'The merchant that its address was handed to; null for the treasury, and for an address that custody does not know.';
