// Files of what a list shows, of any size. Promises: they are read and sent page by page, at the pace of the reader, so
// memory use does not grow, and only a few at once; a reader that stands still for a minute, or whose session ends,
// gets no more, and the browser says that the file is broken.
import {Readable} from 'node:stream'
import type {FastifyReply, FastifyRequest} from 'fastify'
import {z} from 'zod'
import {csvColumns, csvOf} from '../../base/export/csv.ts'
import {parquetColumns, parquetOf} from '../../base/export/parquet.ts'
import type {Asked, FileKind} from './data.ts'
import {read} from './form.ts'
import {fieldsOf} from './view.ts'

const formats = ['csv', 'spreadsheet', 'parquet'] as const
const mostAtOnce = 4
const mostOfMerchant = 2
const stallTimeoutMs = 60_000
const Format = z.object({format: z.enum(formats).default('csv')})

interface Download {
  kind: FileKind
  /** The file's name, without its end. */
  name: string
  asked: Asked
}

/** The files that are on their way, by merchant. */
const open: string[] = []

export async function download(request: FastifyRequest, reply: FastifyReply, file: Download): Promise<FastifyReply> {
  const {format} = read(Format, fieldsOf(request.query))
  const end = format === 'parquet' ? 'parquet' : 'csv'
  reply
    .type(format === 'parquet' ? 'application/vnd.apache.parquet' : 'text/csv; charset=utf-8')
    .header(
      'content-disposition',
      `attachment; filename="${file.name}${format === 'spreadsheet' ? '-spreadsheet' : ''}.${end}"`,
    )
  if (request.method === 'HEAD') return reply.send('') // nothing is read for nobody
  const merchant = request.me.merchant_prefix
  if (open.length >= mostAtOnce || open.filter(each => each === merchant).length >= mostOfMerchant)
    throw Object.assign(new Error('other files are being sent at the moment; please try again soon'), {code: 'SL429'})
  open.push(merchant)
  try {
    const {columns, rows} = await request.data.file(file.kind, file.asked)
    const pages = rows(format === 'parquet' ? parquetColumns(columns) : csvColumns(columns, format))
    const first = await pages.next() // what is refused is, while a page can say so
    const all = async function* () {
      if (!first.done) yield first.value
      yield* pages
    }
    const pieces: AsyncIterable<string | Buffer> =
      format === 'parquet' ? parquetOf(columns, all()) : csvOf(columns, format, all())
    const stream: Readable = Readable.from(
      watched(pieces, () => stream),
      {objectMode: false},
    )
    stream.once('close', () => open.splice(open.indexOf(merchant), 1))
    return reply.send(stream)
  } catch (error) {
    open.splice(open.indexOf(merchant), 1)
    throw error
  }
}

/** Ends the stream of a reader that takes nothing for a while. */
async function* watched<Piece>(pieces: AsyncIterable<Piece>, stream: () => Readable): AsyncGenerator<Piece> {
  for await (const piece of pieces) {
    const timer = setTimeout(() => stream().destroy(new Error('the reader stands still')), stallTimeoutMs)
    try {
      yield piece
    } finally {
      clearTimeout(timer) // also when the reader goes
    }
  }
}
