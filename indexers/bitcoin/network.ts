// How reliable the times in Bitcoin blocks are.
import type {BlockTimes} from '../family.ts'

/**
 * The rules of the network: a block's time is above the median of the eleven blocks below it, and at most two hours
 * ahead of the nodes' clocks. No rule stops a miner's clock from being hours behind. This relies on most of eleven
 * miners having a better clock.
 */
export const blockTimes: BlockTimes = {medianOf: 11, marginMs: 3 * 3_600_000}
