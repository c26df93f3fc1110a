// HTML as tagged templates. Promises: whatever is put into a template is shown as text, unless html`` itself made it.
// So no field that a merchant, a payer or a webhook's response can fill becomes markup.
const entities: Record<string, string> = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;'}

/** For the text of an element, and for an attribute in quotes. */
export const escaped = (text: string) => text.replace(/[&<>"']/g, character => entities[character]!)

/** Markup, made by html`` alone; and drawings, by base/qr.ts. */
export class Html {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** What can be put into a template. null, undefined and false are shown as nothing. */
export type Part = Html | string | number | bigint | null | undefined | false | readonly Part[]

export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  return new Html(String.raw({raw: strings}, ...parts.map(textOf)))
}

function textOf(part: Part): string {
  if (part instanceof Html) return part.text
  if (Array.isArray(part)) return part.map(textOf).join('')
  if (part === null || part === undefined || part === false) return ''
  return escaped(String(part))
}
