-- Streaming replicas of this server, by its replication slots: each slot stands for a replica that was set up and should be there, connected or not.
-- Every owner of a database may read slots; only superusers see what pg_stat_replication says of a replica. The slot of a running backup is
-- temporary, and no replica.
--
-- Readers: the metrics; operators, who see here whether the slot of a replica that is gone for good fills the disk.
create or replace view app.replica as
select s.slot_name::text as slot, s.active as connected, s.inactive_since as away_since,
  ((case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end) - s.restart_lsn)::bigint as behind_bytes,
  s.wal_status
from pg_replication_slots s where s.slot_type = 'physical' and not s.temporary;
comment on view app.replica is 'Streaming replicas of this server, by their replication slots.';
comment on column app.replica.slot is 'Name of the replication slot.';
comment on column app.replica.connected is 'Whether the replica is connected now.';
comment on column app.replica.away_since is 'Since when it is not connected; null while it is, and if unknown.';
comment on column app.replica.behind_bytes is 'How much of the write-ahead log the server keeps for it; null if it keeps nothing: the replica was never connected, or has lost its place.';
comment on column app.replica.wal_status is 'PostgreSQL''s status of that log: reserved, extended, unreserved (about to be dropped), or lost (the replica has to be made anew).';
