// The directory of a service.
import {existsSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {expect, test} from 'vitest'
import {PermanentError} from './errors.ts'
import {makeDirectory} from './home.ts'

test('a directory is made with those above it; one that cannot be made is named at once', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-home-'))
  const inFolder = (name: string) => path.join(folder, name)
  try {
    makeDirectory(inFolder('a/b/c'))
    makeDirectory(inFolder('a/b/c'))
    expect(existsSync(inFolder('a/b/c'))).toBe(true)
    writeFileSync(inFolder('file'), '')
    for (const [directory, why] of [
      [inFolder('file'), 'a file has this name; set SLUICE_HOME to a directory'],
      [inFolder('file/below'), 'file cannot be made: a file has this name'],
      ['/proc/nope/deep', 'the directory /proc/nope cannot be made: /proc takes no directory (ENOENT)'],
    ] as const) {
      expect(() => makeDirectory(directory)).toThrow(PermanentError)
      expect(() => makeDirectory(directory)).toThrow(why)
    }
  } finally {
    rmSync(folder, {recursive: true})
  }
})
