// The chains of the conformance suite: for each family the chains that test it, with each way to read them. A family of
// the registry that is missing here does not compile.
import type {Family} from '../../chains/registry.ts'
import {hasBitcoind} from '../support/bitcoin/node.ts'
import {bitcoin} from './bitcoin/driver.ts'
import type {ChainUnderTest} from './chain.ts'
import {ethereum} from './evm/driver.ts'
import {solana} from './solana/driver.ts'
import {tron} from './tron/driver.ts'

export const families: {[F in Family]: ChainUnderTest[]} = {
  evm: [ethereum],
  // Each source once, and each node. (devnet/bitcoin/devnet.test.ts holds the two nodes against each other.)
  bitcoin: [bitcoin('electrum', 'bcoin'), bitcoin('node', hasBitcoind ? 'bitcoind' : 'bcoin')],
  tron: [tron],
  solana: [solana],
}
