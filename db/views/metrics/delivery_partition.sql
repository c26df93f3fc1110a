-- The weekly partitions of deliveries and their attempts, read from PostgreSQL's catalog. The id of the delivery, which carries the time, decides
-- the partition, so each bound is a time. The first partition begins with the database; the default one has rows outside of all weeks.
--
-- Readers: app.maintain_partitions, which makes and drops weeks; operators, who see their sizes here.
create or replace view app.delivery_partition as
select substr(c.relname, length('delivery') + 1) as suffix,
  uuid_extract_timestamp(substring(pg_get_expr(c.relpartbound, c.oid) from 'FROM \(''([^'']+)''\)')::uuid) as since,
  uuid_extract_timestamp(substring(pg_get_expr(c.relpartbound, c.oid) from 'TO \(''([^'']+)''\)')::uuid) as until,
  pg_total_relation_size(c.oid) as delivery_bytes, pg_total_relation_size(a.oid) as attempt_bytes
from pg_inherits i join pg_class c on c.oid = i.inhrelid
join pg_class a on a.relnamespace = c.relnamespace and a.relname = 'delivery_attempt' || substr(c.relname, length('delivery') + 1)
where i.inhparent = 'app.delivery'::regclass;
comment on view app.delivery_partition is 'The partitions of app.delivery and app.delivery_attempt, and their sizes.';
comment on column app.delivery_partition.suffix is 'The end of the partition''s name, after app.delivery or app.delivery_attempt.';
comment on column app.delivery_partition.since is 'Deliveries from this time on; null for the first partition and the default one.';
comment on column app.delivery_partition.until is 'Deliveries before this time; null for the default partition, which has rows outside of all weeks.';
comment on column app.delivery_partition.delivery_bytes is 'Size of the partition of app.delivery on disk, indexes included.';
comment on column app.delivery_partition.attempt_bytes is 'Size of the partition of app.delivery_attempt on disk, indexes included.';
