-- What custody signed is read by a second library before it is stored (jobs/payouts/second-reader.ts). Where that reads something else than was asked, an
-- incident is open. The worker looks up the block that a transaction names.
insert into app.incident_kind (kind, halts, decisions, way_out) values
  ('signed_otherwise', false, '{kept}',
    'custody signed something else than was asked: nothing was sent; find out whether the program was changed, or its machine, before anything else is paid; then sluice incident resolve {id} --as kept')
on conflict do nothing;

grant select on chain.block to sluice_jobs;
