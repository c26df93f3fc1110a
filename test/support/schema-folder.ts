// A copy of the tables, functions and views of db/, which a test can change and migrate from.
import {cpSync, mkdtempSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {pathToFileURL} from 'node:url'

const own = new URL('../../db/', import.meta.url)

/** In its own folder, which the caller removes. */
export function copySchema(): URL {
  const folder = pathToFileURL(`${mkdtempSync(path.join(tmpdir(), 'sluice-schema-'))}/`)
  for (const kind of ['tables', 'functions', 'views'])
    cpSync(new URL(kind, own), new URL(kind, folder), {recursive: true})
  return folder
}
