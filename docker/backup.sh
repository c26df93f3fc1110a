#!/usr/bin/env bash
# Copies what a restore needs into FOLDER/TIME: docker/backup.sh FOLDER [KEPT]. Promises: a folder with a time in its
# name is whole; the newest KEPT (14) stay. The passphrase is not in it: docs/operations/containers.md.
set -euo pipefail
[[ $# -ge 1 && -d $1 ]] || { echo 'usage: docker/backup.sh FOLDER [KEPT], with a folder that is there' >&2 && exit 2; }
folder=$(cd "$1" && pwd)
kept=${2:-14}
[[ $kept =~ ^[1-9][0-9]*$ ]] || { echo 'docker/backup.sh: KEPT must be a whole number above 0' >&2 && exit 2; }
cd "$(dirname "$0")/.."
name=$(date -u +%Y-%m-%dT%H%M%SZ)
part=$folder/.$name
umask 077
mkdir "$part"
trap 'rm -rf "$part"' EXIT

# The database first: the journal then has everything that the dump has. What it has more, sluice custody reconcile
# imports.
docker compose exec -T postgres pg_dump -U sluice -Fc sluice >"$part/sluice.dump"
docker compose exec -T postgres pg_restore --list <"$part/sluice.dump" >/dev/null # it is whole
docker compose exec -T custody sluice custody backup --to "/var/lib/sluice/.backup-$name" >/dev/null
is_copied=yes
docker compose cp "custody:/var/lib/sluice/.backup-$name" "$part/custody" >/dev/null || is_copied=no
docker compose exec -T custody rm "/var/lib/sluice/.backup-$name"
[[ $is_copied == yes ]]
docker compose exec -T postgres psql -q -U sluice -c "select app.note_backup('docker/backup.sh')" >/dev/null
mv "$part" "$folder/$name"
find "$folder" -mindepth 1 -maxdepth 1 -type d -name '20*Z' | sort | head -n "-$kept" | xargs -r rm -r
echo "$folder/$name"
