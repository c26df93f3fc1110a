-- The record of backups and of drills, which alarms count from. `sluice backup`, or the cron job that runs another backup tool, calls
-- app.note_backup after it has finished; `sluice drill` calls app.note_drill. The record says that it was done and when, not that the copy still
-- exists.

create or replace function app.note_backup(made_with text) returns void
language sql set search_path = pg_catalog as $$
  insert into app.backup_run (kind, made_with) values ('backup', made_with)
$$;
comment on function app.note_backup is 'Notes that a backup of this database has just finished, and by which tool. Call it only after the tool has succeeded.';

create or replace function app.note_drill(error text) returns void
language sql set search_path = pg_catalog as $$
  insert into app.backup_run (kind, made_with, error) values ('drill', 'sluice drill', error)
$$;
comment on function app.note_drill is 'Notes that a drill has just ended: which step failed and why, or null if all of them succeeded.';
