-- The record of backups and of drills, which alarms count from: app.note_backup is called by whatever has just finished a backup (`sluice backup`, or
-- the job of cron that runs another tool), app.note_drill by `sluice drill`. It says that somebody did it and when, not that the copy still exists.

create or replace function app.note_backup(made_with text) returns void
language sql set search_path = pg_catalog as $$
  insert into app.backup_run (kind, made_with) values ('backup', made_with)
$$;
comment on function app.note_backup is 'Notes that a backup of this database was just finished, and by which tool. Call it only once the tool has succeeded.';

create or replace function app.note_drill(error text) returns void
language sql set search_path = pg_catalog as $$
  insert into app.backup_run (kind, made_with, error) values ('drill', 'sluice drill', error)
$$;
comment on function app.note_drill is 'Notes that a drill was just over: which step failed and why, or null where all of them succeeded.';
