// Parts that pages of both processes share. Promises: a status is a word with a tone, never a colour alone; a time is
// in the time zone of the page (zone.ts).
import {randomUUID} from 'node:crypto'
import {type Html, html, type Part} from '../base/html.ts'
import {local, zone} from './zone.ts'

/** What went wrong, read out by screen readers; nothing if nothing did. */
export const alert = (text: string | undefined): Html | undefined =>
  text === undefined || text === '' ? undefined : html`<p role="alert" class="alert">${text}</p>`

/** What went well. */
export const notice = (text: string | undefined): Html | undefined =>
  text === undefined || text === '' ? undefined : html`<p role="status" class="notice">${text}</p>`

interface FieldOptions {
  label: string
  name: string
  type?: 'text' | 'email' | 'password' | 'url' | 'search'
  value?: string
  /** A line of help below it. */
  help?: Part
  autocomplete?: string
  isOptional?: boolean
  isFirst?: boolean
  minlength?: number
  maxlength?: number
}

export function field({label, name, type = 'text', value, help, isOptional, isFirst, ...more}: FieldOptions): Html {
  const {autocomplete, minlength, maxlength} = more
  return html`<label class="field"><span>${label}</span><input name="${name}" type="${type}" value="${value}"${
    isOptional ? '' : html` required`
  }${isFirst && html` autofocus`}${autocomplete && html` autocomplete="${autocomplete}"`}${
    minlength && html` minlength="${minlength}"`
  }${maxlength && html` maxlength="${maxlength}"`}>${help && html`<small>${help}</small>`}</label>`
}

interface SelectOptions {
  label: string
  name: string
  value?: string
  options: readonly (readonly [value: string, label: string])[]
}

/** One of several. */
export const select = ({label, name, value, options}: SelectOptions): Html =>
  html`<label class="field"><span>${label}</span><select name="${name}" required>${options.map(
    ([each, text]) => html`<option value="${each}"${each === value && html` selected`}>${text}</option>`,
  )}</select></label>`

interface Choice {
  value: string
  label: Part
  help?: Part
}

/** Boxes that can be ticked, all with one name. */
export const choices = (legend: string, name: string, all: readonly Choice[], ticked: readonly string[]): Html =>
  html`<fieldset class="choices"><legend>${legend}</legend>${all.map(
    ({value, label, help}) =>
      html`<label><input type="checkbox" name="${name}" value="${value}"${ticked.includes(value) && html` checked`}><span><span>${label}</span>${help && html`<small>${help}</small>`}</span></label>`,
  )}</fieldset>`

/** The id of a form: the database does what the same form asks for only once. */
export const formId = (): Html => html`<input type="hidden" name="request" value="${randomUUID()}">`

export type Tone = 'good' | 'wait' | 'bad' | 'soft'

export const status = (text: string, tone: Tone): Html => html`<span class="status ${tone}">${text}</span>`

/** 2026-11-25, in one line. */
export const day = (text: string): Html => html`<span class="day">${text}</span>`

/** 2026-11-25 03:41:09, in the zone of the page: whoever uses it says which that is, once. */
export function time(iso: string): Html {
  const text = local(iso)
  return html`<time datetime="${iso}">${day(text.slice(0, 10))} ${text.slice(11)}</time>`
}

/** The same with the zone. */
export const when = (iso: string): Html => html`${time(iso)} ${zone()}`

/** A text that people take elsewhere, in full, with a button that copies it. */
export const copyable = (text: string, name: string): Html =>
  html`<span class="copyable"><code>${text}</code>${copyButton(name)}</span>`

/** Lines for a terminal. */
export const command = (text: string, name = 'command'): Html =>
  html`<div class="command"><pre tabindex="0" role="region" aria-label="${name}"><code>${text}</code></pre>${copyButton(name)}</div>`

/** Copies the element before it. */
export const copyButton = (name: string): Html =>
  html`<button type="button" class="quiet small" data-copies aria-label="Copy ${name}">Copy</button>`

/** A long id, with its ends. */
export const short = (text: string): Html =>
  html`<code title="${text}">${text.length > 20 ? `${text.slice(0, 10)}…${text.slice(-6)}` : text}</code>`

interface Card {
  title?: Part
  body: Part
  /** Beside the title. */
  action?: Part
  id?: string
}

export const card = ({title, body, action, id}: Card): Html =>
  html`<section class="card"${id && html` id="${id}"`}>${title && html`<div class="head"><h2>${title}</h2>${action}</div>`}${body}</section>`

/** The API's reference: the pages' process knows where it is. */
export const apiDocs = (text: Part): Html =>
  html`<a href="/api-docs" target="_blank">${text}<span class="unseen"> (opens a new tab)</span></a>`

/** The type of an event, in one line. */
export const eventType = (type: string): Html => html`<code class="whole">${type}</code>`

/** An e-mail address, which is broken before its @ if it has to be. */
export const email = (address: string): Html => {
  const at = Math.max(address.lastIndexOf('@'), 0)
  return html`<span class="clip email">${address.slice(0, at)}<wbr>${address.slice(at)}</span>`
}

export const link = (to: string, text: Part): Html => html`<a href="${to}">${text}</a>`
export const button = (to: string, text: Part, kind = ''): Html =>
  html`<a class="button ${kind}" href="${to}">${text}</a>`

/** Names and values, one below the other. */
export const facts = (rows: readonly (readonly [name: Part, value: Part] | undefined | false)[]): Html =>
  html`<dl class="facts">${rows.map(row => row && html`<div><dt>${row[0]}</dt><dd>${row[1]}</dd></div>`)}</dl>`

interface Column {
  name: string
  /** `state`: beside the first cell, where a row is a card. `time`: the zone is named above the table. */
  kind?: 'state' | 'time'
}

/** A column of times. */
export const timesOf = (name: string): Column => ({name, kind: 'time'})

interface Table {
  /** What the table has, for screen readers. */
  caption: string
  columns: readonly (string | Column)[]
  /** A cell that is null has nothing to say. */
  rows: readonly {id?: string; isOld?: boolean; cells: readonly Part[]}[]
  /** Instead of a table without rows. */
  empty: Part
}

/**
 * A row is a card where the page is narrow. Its first cell names it, and its link opens it. The roles repeat what the
 * elements are: browsers forget that when a style displays them as something else.
 */
export function table({caption, columns, rows, empty}: Table): Html {
  if (rows.length === 0) return html`<div class="empty">${empty}</div>`
  const all = columns.map(column => (typeof column === 'string' ? {name: column, kind: ''} : {kind: '', ...column}))
  const heads = all.map(({name, kind}) => html`<th role="columnheader" scope="col" class="${kind}">${name}</th>`)
  return html`${all.some(({kind}) => kind === 'time') && html`<p class="soft small">Times are in ${zone()}.</p>`}<div class="table"><table role="table"><caption class="unseen">${caption}</caption><thead role="rowgroup"><tr role="row">${heads}</tr></thead><tbody role="rowgroup">${rows.map(
    ({id, isOld, cells}) =>
      html`<tr role="row"${id && html` id="${id}"`}${isOld && html` class="old"`}>${cells.map(
        (cell, index) =>
          html`<td role="cell" class="${all[index]!.kind}${cell === null && ' none'}" data-name="${all[index]!.name}"><div>${cell ?? '–'}</div></td>`,
      )}</tr>`,
  )}</tbody></table></div>`
}

export interface Step {
  /** Null if it has not happened. */
  at: string | null
  title: Part
  text?: Part
  tone?: Tone
}

/** What happened, in order; what has not happened yet stands at the end. */
export const timeLine = (steps: readonly Step[]): Html =>
  html`<ol class="time-line">${steps.map(
    ({at, title, text, tone = 'soft'}) =>
      html`<li class="${at === null ? 'ahead' : 'past'} ${tone}"><div><strong>${title}</strong>${at !== null && html`<span class="when">${when(at)}</span>`}</div>${text && html`<div class="text">${text}</div>`}</li>`,
  )}</ol>`

/** A part of a page that is loaded again when there is news. */
export const live = (id: string, part: string, body: Part): Html =>
  html`<div id="${id}" data-part="${part}">${body}</div>`

interface Decision {
  isDestructive?: boolean
  /** The button that changes nothing. */
  other?: string
}

/** The buttons at the end of a form. */
export const decide = (button: Part, back: string, {isDestructive, other = 'Cancel'}: Decision = {}): Html =>
  html`<div class="decide"><button${isDestructive && html` class="danger"`}>${button}</button><a class="button quiet" href="${back}">${other}</a></div>`

export const signOut = html`<form method="post" action="/sign-out"><button class="quiet">Sign out</button></form>`
