// A transaction, and where people see it.

import {type Html, html} from '../../../base/html.ts'
import {copyable} from '../../components.ts'
import type {ShownChain} from '../chains.ts'

export const transaction = (txid: string, chain: ShownChain): Html => {
  const url = chain.transactionUrl(txid)
  return html`${copyable(txid, 'transaction id')}${url && html`<br><a class="explorer" href="${url}" rel="noreferrer" target="_blank">See it in the explorer<span class="unseen"> (opens a new tab)</span></a>`}`
}
