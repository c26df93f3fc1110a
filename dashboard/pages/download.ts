// Files of what a list shows, of any size. Promises: they are read and sent page by page, at the pace of the reader, so
// memory use does not grow; a session that ends meanwhile ends the file, too, and the browser says that it is broken.
import {Readable} from 'node:stream'
import type {FastifyReply, FastifyRequest} from 'fastify'
import {z} from 'zod'
import {csvColumns, csvOf} from '../../base/export/csv.ts'
import {parquetColumns, parquetOf} from '../../base/export/parquet.ts'
import type {Asked, FileKind} from './data.ts'
import {read} from './form.ts'
import {fieldsOf} from './view.ts'

const formats = ['csv', 'spreadsheet', 'parquet'] as const
const Format = z.object({format: z.enum(formats).default('csv')})

interface Download {
  kind: FileKind
  /** The file's name, without its end. */
  name: string
  asked: Asked
}

export async function download(request: FastifyRequest, reply: FastifyReply, file: Download): Promise<FastifyReply> {
  const {format} = read(Format, fieldsOf(request.query))
  const {columns, rows} = await request.data.file(file.kind, file.asked)
  const pages = rows(format === 'parquet' ? parquetColumns(columns) : csvColumns(columns, format))
  const first = await pages.next() // what is refused is, while a page can say so
  const all = async function* () {
    if (!first.done) yield first.value
    yield* pages
  }
  const pieces = format === 'parquet' ? parquetOf(columns, all()) : csvOf(columns, format, all())
  const end = format === 'parquet' ? 'parquet' : 'csv'
  return reply
    .type(format === 'parquet' ? 'application/vnd.apache.parquet' : 'text/csv; charset=utf-8')
    .header('content-disposition', `attachment; filename="${file.name}.${end}"`)
    .send(Readable.from(pieces, {objectMode: false}))
}
