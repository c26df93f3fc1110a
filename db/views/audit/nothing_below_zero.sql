-- It also finds, though nothing is wrong, an address that was swept before its final deposit was taken back: that address then holds less than zero.
create or replace view audit.nothing_below_zero as
select 'holding' as what, chain, token, address as whose, amount from app.holding where amount < 0
union all select 'treasury', chain, token, null, balance from app.treasury where balance < 0
union all select 'gas', chain, app.native_token(chain), address, amount from app.gas where amount < 0
union all select 'reserved gas', chain, app.native_token(chain), address, reserved from app.gas where reserved < 0
union all select 'stake', chain, resource, null, amount from app.stake where amount < 0
union all select 'reserved', chain, token, null, reserved from app.treasury where reserved < 0
union all select 'reserved share', chain, token, merchant_id::text, reserved from app.treasury_share where reserved < 0;
comment on view audit.nothing_below_zero is 'no address, no treasury and no reservation is below zero';
comment on column audit.nothing_below_zero.what is 'holding, treasury, reserved, reserved share, gas, reserved gas, or stake.';
comment on column audit.nothing_below_zero.whose is 'The address of a holding or of gas, the merchant of a share; null for the treasury.';
comment on column audit.nothing_below_zero.amount is 'How much it is, in base units: below zero.';
