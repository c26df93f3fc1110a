// Which addresses webhooks may go to. Promise: an address counts as public only if it is certainly on the public
// internet.
import {isIP} from 'node:net'
import ipaddr from 'ipaddr.js'

/** Whether an address is on the public internet, and does not lead back into a private network by a translation. */
export function isPublicAddress(text: string): boolean {
  if (!ipaddr.isValid(text)) return false
  const address = ipaddr.process(text) // unwraps ::ffff:a.b.c.d
  if (address.range() !== 'unicast') return false
  // Outside of 2000::/3 nothing is assigned to the public internet; ipaddr.js takes ::7f00:1 and the like for unicast.
  return address.kind() === 'ipv4' || address.match(ipaddr.parse('2000::'), 3)
}

/**
 * Why an endpoint cannot have this URL; undefined if it can. A host name is resolved and checked only when something is
 * sent to it.
 */
export function refusalOfWebhook(url: string, allowPrivate: boolean): string | undefined {
  if (allowPrivate) return undefined
  if (/^http:/i.test(url)) return 'must be https'
  return leadsToPrivate(url) ? 'must lead to an address of the public internet' : undefined
}

function leadsToPrivate(text: string): boolean {
  const url = URL.parse(text)
  if (!url) return false
  const address = literalAddress(url)
  return address === undefined ? /(^|\.)localhost\.?$/.test(url.hostname) : !isPublicAddress(address)
}

/** The address in a URL's host; undefined if the host is a name. The URL parser has normalised the address. */
export function literalAddress({hostname}: {hostname: string}): string | undefined {
  const host = hostname.replace(/^\[|\]$/g, '')
  return isIP(host) ? host : undefined
}
