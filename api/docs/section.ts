/** A part of the page, under a heading of its own. */
export interface Section {
  title: string
  html: string
  /** What the navigation leads to in it. `text` is what the search looks through, in lower case. */
  entries: {id: string; title: string; text: string}[]
}
