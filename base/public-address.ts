// Which addresses webhooks may go to. Promises: what is not surely of the public internet is not public.
import {isIP} from 'node:net'
import ipaddr from 'ipaddr.js'

/** Whether an address is one of the public internet, and not one that leads back into a private network by a translation. */
export function isPublicAddress(text: string): boolean {
  if (!ipaddr.isValid(text)) return false
  const address = ipaddr.process(text) // unwraps ::ffff:a.b.c.d
  if (address.range() !== 'unicast') return false
  // Outside of 2000::/3 nothing is assigned to the public internet; ipaddr.js takes ::7f00:1 and the like for unicast.
  return address.kind() === 'ipv4' || address.match(ipaddr.parse('2000::'), 3)
}

/** Why an endpoint cannot have this URL; undefined if it can. What another name leads to is seen when something is sent to it. */
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

/** The address that a URL's host is, not by name but as it stands; undefined where it is a name. The URL parser brought it into its one form. */
export function literalAddress({hostname}: {hostname: string}): string | undefined {
  const host = hostname.replace(/^\[|\]$/g, '')
  return isIP(host) ? host : undefined
}
