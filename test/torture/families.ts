// The chains of a run: who pays on each, and what stands between it and the service.
import {findBitcoind} from '../../devnet/bitcoin/node.ts'
import type {LocalChainCode} from '../../devnet/evm/constants.ts'
import {IndexersElectrum, WorkersElectrum} from './bitcoin/electrum-proxy.ts'
import {BitcoinPayer} from './bitcoin/payer.ts'
import {EvmPayer} from './evm/payer.ts'
import type {GoBetween} from './go-between.ts'
import {NodeProxy} from './node-proxy.ts'
import type {Payer} from './payer.ts'
import type {Payments} from './payments.ts'
import type {Random} from './random.ts'
import type {ChainCode, Service} from './service.ts'
import type {Users} from './users.ts'

interface Cast {
  service: Service
  users: Users
  payments: Payments
  random: Random
}

interface TorturedChain {
  payer(cast: Cast): Payer
  /** To be made before the service starts. */
  goBetweens(service: Service, random: Random): GoBetween[]
}

export const chains: {[C in ChainCode]: TorturedChain} = {ETH: evm('ETH'), POLYGON: evm('POLYGON'), BTC: bitcoin()}

function evm(code: LocalChainCode): TorturedChain {
  return {
    payer: ({service, users, payments, random}) => new EvmPayer(code, service, users, payments, random),
    goBetweens: (service, random) => [new NodeProxy(code, service, random)],
  }
}

/** Some runs read it from Electrum servers, some from a node. */
function bitcoin(): TorturedChain {
  return {
    payer: ({service, users, payments, random}) => new BitcoinPayer(service, users, payments, random),
    goBetweens: (service, random) => {
      const source = random.fork('source').weighted({electrum: 3, node: findBitcoind() ? 1 : 0})
      service.use('BITCOIN_SOURCE', source)
      console.log(`Bitcoin is read from ${source === 'node' ? 'a node' : 'Electrum servers'}`)
      return [
        new NodeProxy('BTC', service, random),
        new WorkersElectrum(service, random),
        ...['first', 'second'].map(name => new IndexersElectrum(name, service, random)),
      ]
    },
  }
}
