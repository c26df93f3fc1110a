// What the times in blocks of Bitcoin are worth.
import type {BlockTimes} from '../family.ts'

/**
 * The rules of the network: a block's time is above the median of the eleven below it, and at most two hours ahead of the nodes' clocks. That it
 * is not hours behind either is up to who mines it; that most of eleven miners have no clock that is, is what this rests on.
 */
export const blockTimes: BlockTimes = {medianOf: 11, marginMs: 3 * 3_600_000}
