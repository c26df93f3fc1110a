// Keeps webhooks away from private networks (server-side request forgery). Promises: the checked addresses are exactly
// those that the connection uses, so neither an unusual spelling nor a name that changes its addresses bypasses the
// check. If any address of a name is private, the name is refused. A slow name takes one lookup, however many messages
// wait for it.
import {type LookupAddress, lookup} from 'node:dns'
import type {LookupFunction} from 'node:net'
import {buildConnector} from 'undici'
import {isPublicAddress, literalAddress} from '../../base/public-address.ts'

/** The way that undici makes its connections; with `allowPrivate` to any address. */
export function guardedConnector({timeoutMs, allowPrivate}: {timeoutMs: number; allowPrivate: boolean}) {
  const connect = buildConnector({timeout: timeoutMs, lookup: sharedLookup(allowPrivate)})
  if (allowPrivate) return connect
  return ((options, callback) => {
    const address = literalAddress(options)
    const refusal = address === undefined ? undefined : refusalOf([{address}]) // an address is never looked up
    if (refusal) callback(refusal, null)
    else connect(options, callback)
  }) satisfies typeof connect
}

/** The error for a host with these addresses; undefined where all of them are public. */
export function refusalOf(addresses: {address: string}[]): Error | undefined {
  if (addresses.every(({address}) => isPublicAddress(address))) return undefined
  return new Error('refused: the URL leads to a private address')
}

function sharedLookup(allowPrivate: boolean): LookupFunction {
  const running = new Map<string, Promise<LookupAddress[]>>()
  const resolve = (host: string) => {
    const addresses = running.get(host) ?? resolveAll(host).finally(() => running.delete(host))
    running.set(host, addresses)
    return addresses
  }
  return (host, options, callback) => {
    resolve(host).then(
      found => {
        const family = options.family === 4 || options.family === 6 ? options.family : undefined
        const addresses = found.filter(address => !family || address.family === family)
        const first = addresses[0]
        if (!first) return callback(new Error(`no address for ${host}`), '')
        const refusal = allowPrivate ? undefined : refusalOf(found)
        if (refusal) return callback(refusal, '')
        if (options.all) callback(null, addresses)
        else callback(null, first.address, first.family)
      },
      error => callback(error, ''),
    )
  }
}

function resolveAll(host: string): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) =>
    lookup(host, {all: true}, (error, addresses) => (error ? reject(error) : resolve(addresses))),
  )
}
