// The examples of docs/database.md: each block of SQL that is followed by a block of text is a query and its output.
// Promise: the document shows what the analyst's role gets, on the data of seed.sql in a database that holds nothing
// else.
import {readFileSync} from 'node:fs'
import pg from 'pg'

export const documentFile = new URL('../../docs/database.md', import.meta.url)
const example =
  /(?<=^```sql\n)(?<sql>(?:(?!^```).*\n)*)(?<between>```\n\s*```text\n)(?<output>(?:(?!^```).*\n)*)(?=```$)/gm

/** Fills an empty, migrated database; needs its owner's URL. */
export async function seed(ownerUrl: string): Promise<void> {
  await connected(ownerUrl, client => client.query(readFileSync(new URL('seed.sql', import.meta.url), 'utf8')))
}

/** The queries of a document, in its order. */
export function queriesOf(document: string): string[] {
  return [...document.matchAll(example)].map(match => match.groups!.sql!)
}

/** The document with the outputs that its queries have now. */
export async function withOutputs(document: string, analystUrl: string): Promise<string> {
  return await connected(analystUrl, async client => {
    const outputs: string[] = []
    for (const sql of queriesOf(document)) outputs.push(await outputOf(client, sql))
    return document.replace(example, (_, sql: string, between: string) => `${sql}${between}${outputs.shift()}`)
  })
}

const numberTypes = [20, 21, 23, 700, 701, 1700]

/** The result as psql prints it: every value as the server writes it, numbers to the right. */
async function outputOf(client: pg.Client, sql: string): Promise<string> {
  const {fields, rows} = await client.query<(string | null)[]>({
    text: sql,
    rowMode: 'array',
    types: {getTypeParser: () => (value: string) => value},
  })
  const widths = fields.map(({name}, n) => Math.max(name.length, ...rows.map(row => row[n]?.length ?? 0)))
  const line = (cells: (string | null)[]) =>
    cells
      .map((cell, n) => {
        const text = cell ?? ''
        return numberTypes.includes(fields[n]!.dataTypeID) ? text.padStart(widths[n]!) : text.padEnd(widths[n]!)
      })
      .join(' | ')
      .trimEnd()
  const lines = [
    line(fields.map(({name}) => name)),
    widths.map(width => '-'.repeat(width)).join('-+-'),
    ...rows.map(line),
  ]
  return lines.map(text => `${text}\n`).join('')
}

async function connected<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({connectionString: url})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
