// Where a merchant's events may be posted to.
import {refusalOfWebhook} from './public-address.ts'
import {text} from './text.ts'

/**
 * URLs that events may be posted to: https, and to no private address; http and any address, too, where private
 * receivers are allowed; no user name or password in them. A host name is resolved and checked when something is sent
 * to it.
 */
export function webhookUrl(allowPrivate: boolean) {
  return text(2048)
    .refine(url => /^https?:\/\/[^\s\\]+$/i.test(url) && URL.canParse(url), 'must be an http or https URL')
    .refine(url => !URL.canParse(url) || !/@/.test(url.split(/[/?#]/)[2] ?? ''), 'must hold no user name or password')
    .refine(url => !refusalOfWebhook(url, allowPrivate), {
      error: ({input}) => refusalOfWebhook(String(input), allowPrivate),
    })
    .meta({format: 'uri', maxLength: 2048})
}
