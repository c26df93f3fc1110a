// Pages that say one thing, or ask before something is done.

import {html, type Part} from '../../../base/html.ts'
import {alert, decide, formId, link, notice} from '../../components.ts'
import type {View} from '../view.ts'

export const alreadyDone = (text: string, [path, name]: readonly [path: string, name: string]): View => ({
  title: 'Done already',
  body: html`<section class="card narrow">${notice(text)}<p>${link(path, name)}</p></section>`,
})

interface Question {
  title: string
  section: string
  parent: readonly [path: string, name: string]
  text: Part
  /** The form is sent here. */
  action: string
  button: string
  /** Something ends. */
  isDestructive?: boolean
  error?: string
}

/** Asks, on a page of its own, whether something is to be done. */
export const question = ({title, section, parent, text, action, button, isDestructive, error}: Question): View => ({
  title,
  section,
  parent,
  body: html`<section class="card narrow">${alert(error)}${text}
<form method="post" action="${action}">${formId()}${decide(button, parent[0], {isDestructive, other: 'Keep it as it is'})}</form></section>`,
})
