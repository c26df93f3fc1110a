// Every family of chains in devnet/. A family of the registry that is missing here does not compile.
import path from 'node:path'
import {PermanentError} from '../base/errors.ts'
import {readService} from '../base/home.ts'
import {type ChainCode, chain, type Family} from '../chains/registry.ts'
import type {LocalClient} from './client.ts'
import type {DevnetFamily} from './family.ts'
import {readDevnet} from './file.ts'

/** Loaded when needed: a client of one chain needs one family. */
export const families = {
  evm: async () => (await import('./evm/family.ts')).evm,
  bitcoin: async () => (await import('./bitcoin/family.ts')).bitcoin,
  tron: async () => (await import('./tron/family.ts')).tron,
  solana: async () => (await import('./solana/family.ts')).solana,
} satisfies {[F in Family]: () => Promise<DevnetFamily>}

/** Some need packages that an installation without those for development does not have. */
export async function familyOf(code: ChainCode): Promise<DevnetFamily> {
  return await families[chain(code).family]().catch(error => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new PermanentError(
      `the local chain of ${code} needs the packages for development: run npm ci, or name a node, or set SLUICE_DEVNET=off (${error.message})`,
    )
  })
}

/** The local chain of a service, found by its SLUICE_HOME. Rejects if none runs. */
export async function findLocalChain(home: string, code: ChainCode): Promise<LocalClient> {
  const {connect} = await familyOf(code)
  const devnet = readDevnet(path.join(home, 'devnet', code.toLowerCase()))
  if (readService(home)?.chains[code]?.local === false)
    throw new Error(
      `the service of ${home} follows ${code} at a node of the settings, which is no local chain: pay with a wallet, or start a service without that node`,
    )
  const none = `no local ${code} chain runs in ${home}; start the service, or set SLUICE_HOME to its directory`
  if (!devnet) throw new Error(none)
  const client = await connect(devnet.control_url).catch((cause: Error) => {
    const why = (cause.cause as Error | undefined)?.message ?? cause.message
    throw new Error(`${none} (${why})`, {cause})
  })
  // Another program, or another service's chain, may have the port of a killed one.
  if (client.chain !== code) throw new Error(none)
  return client
}
