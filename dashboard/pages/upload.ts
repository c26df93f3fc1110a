// Forms with a file. Promises: a field that is too long, and a file beyond the limit, end the request; a file is bytes,
// whatever it is said to be.
import type {IncomingHttpHeaders} from 'node:http'
import type {Readable} from 'node:stream'
import {Busboy} from '@fastify/busboy'

const limits = {fields: 30, files: 1, fieldSize: 16 * 1024, fileSize: 700 * 1024, parts: 31}

/** The fields of a form, of which a file is a Buffer; one that was left empty is absent. */
export function readUpload(headers: IncomingHttpHeaders, body: Readable): Promise<Record<string, string | Buffer>> {
  return new Promise((resolve, reject) => {
    const refuse = (why: string) => reject(Object.assign(new Error(why), {statusCode: 413}))
    const fields: Record<string, string | Buffer> = {}
    let form: InstanceType<typeof Busboy>
    try {
      form = new Busboy({headers: headers as {'content-type': string}, limits})
    } catch {
      return reject(Object.assign(new Error('the form cannot be read'), {statusCode: 400}))
    }
    form.on('field', (name, value, _nameCut, valueCut) => {
      if (valueCut) refuse(`${name} is too long`)
      fields[name] = value
    })
    form.on('file', (name, file) => {
      const chunks: Buffer[] = []
      file.on('data', (chunk: Buffer) => chunks.push(chunk))
      file.on('error', () => {}) // a file that ends too early: the form says so, too
      file.on('limit', () => refuse('the file is too large'))
      file.on('end', () => {
        if (chunks.length) fields[name] = Buffer.concat(chunks)
      })
    })
    form.on('filesLimit', () => refuse('there is more than one file'))
    form.on('fieldsLimit', () => refuse('there are too many fields'))
    form.on('error', () => reject(Object.assign(new Error('the form cannot be read'), {statusCode: 400})))
    form.on('finish', () => resolve(fields))
    body.on('error', reject)
    body.pipe(form)
  })
}
