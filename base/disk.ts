// The free space of the disks that Sluice needs, for Prometheus (docs/operations/monitoring.md). Promises: each disk is
// measured at every scrape. A directory that does not exist, or cannot be read, has no numbers, because a 0 would be
// taken for a full disk.
import type {StatsFs} from 'node:fs'
import {statfs} from 'node:fs/promises'
import {Gauge} from 'prom-client'
import {registry} from './observe.ts'

const directories = new Map<string, string>()

measured('sluice_disk_free_bytes', 'Free space on the disk.', ({bavail, bsize}) => bavail * bsize)
measured('sluice_disk_size_bytes', 'Size of the disk.', ({blocks, bsize}) => blocks * bsize)

/** From now on measures the disk of this directory, under this name. */
export function measureDisk(name: string, directory: string): void {
  directories.set(name, directory)
}

function measured(name: string, help: string, bytesOf: (stats: StatsFs) => number): void {
  new Gauge({
    name,
    help,
    labelNames: ['disk'],
    registers: [registry],
    async collect() {
      for (const [disk, directory] of directories) {
        const stats = await statfs(directory).catch(() => undefined)
        if (stats) this.set({disk}, bytesOf(stats))
        else this.remove({disk})
      }
    },
  })
}
