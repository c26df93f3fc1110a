// What is too small on this machine for Sluice and its database, as lines of the log: node docker/machine.ts. It never
// fails: a service that runs must be able to start again where somebody filled the disk.
import {statfsSync} from 'node:fs'
import {availableParallelism, totalmem} from 'node:os'
import {logger} from '../base/log.ts'

const gib = 2 ** 30

/** A machine that is sold with 4 GB has less for its programs. */
const needs = {cpus: 2, memory: 3.5 * gib, disk: 20 * gib}

export interface Machine {
  cpus: number
  /** Bytes. */
  memory: number
  /** Free bytes of the disk that has the volumes. */
  disk: number
}

export function thisMachine(): Machine {
  const {bavail, bsize} = statfsSync('/') // the engine stores images and volumes on one disk
  return {cpus: availableParallelism(), memory: totalmem(), disk: bavail * bsize}
}

/** In sentences, with what to do. */
export function tooSmall({cpus, memory, disk}: Machine): string[] {
  const said: string[] = []
  if (cpus < needs.cpus)
    said.push(`it has ${cpus} CPU, and ${needs.cpus} are advised: everything works, and waits longer; give it another`)
  if (memory < needs.memory)
    said.push(
      `it has ${inGib(memory)} GiB of memory, and 4 are needed: processes may be killed and started again; give it more, or leave chains out`,
    )
  if (disk < needs.disk)
    said.push(
      `its disk has ${inGib(disk)} GiB left, and ${inGib(needs.disk)} are advised for a start: a full disk stops everything; make room, or use a larger disk`,
    )
  return said
}

function inGib(bytes: number): string {
  return (bytes / gib).toFixed(1)
}

if (import.meta.main) {
  const log = logger('machine')
  for (const why of tooSmall(thisMachine())) log.warn({why}, 'this machine is small for Sluice')
}
