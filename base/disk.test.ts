import {mkdtempSync, rmSync, statfsSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {expect, test} from 'vitest'
import {measureDisk} from './disk.ts'
import {registry} from './observe.ts'

test('a disk is measured through a directory on it, as long as the directory exists', async () => {
  const directory = mkdtempSync(path.join(tmpdir(), 'sluice-disk-'))
  measureDisk('journal', directory)
  const read = async (name: string) =>
    Number(/^\w+\{disk="journal"\} (.*)$/m.exec(await registry.getSingleMetricAsString(name))?.[1])
  const {bavail, blocks, bsize} = statfsSync(directory)
  expect(await read('sluice_disk_size_bytes')).toBe(blocks * bsize)
  expect(Math.abs((await read('sluice_disk_free_bytes')) - bavail * bsize)).toBeLessThan(0.1 * blocks * bsize) // others write, too
  rmSync(directory, {recursive: true})
  expect(await read('sluice_disk_free_bytes')).toBeNaN()
})
