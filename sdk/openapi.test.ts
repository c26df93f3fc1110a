// The types of the client library are those of the API's document. (To write sdk/openapi.generated.ts again:
// vitest run --project quick sdk/openapi.test.ts --update=all)
import openapiTS, {astToString, type OpenAPI3} from 'openapi-typescript'
import {expect, test} from 'vitest'
import type {OpenApi, Operation} from '../api/openapi-document.ts'
import {startApi} from '../test/support/api.ts'
import {testDatabase} from '../test/support/database.ts'

const head = "// Generated from the API's document: what each operation is sent, and answers where it succeeds.\n"

/** Without what the package says once: errors, headers and paths. */
function slim(document: OpenApi): OpenApi {
  for (const operation of Object.values(document.paths).flatMap(path => Object.values<Operation>(path)))
    for (const [status, response] of Object.entries(operation.responses)) {
      if (status >= '300') delete operation.responses[status]
      else delete response.headers
    }
  return {...document, components: {schemas: document.components.schemas}, webhooks: {}} as OpenApi
}

test('the types of the package are those of the document', async () => {
  const db = await testDatabase()
  const api = await startApi(db)
  try {
    const document = slim((await (await fetch(`${api.url}/openapi.json`)).json()) as OpenApi)
    const text = astToString(await openapiTS(document as unknown as OpenAPI3, {alphabetize: true}))
    const types = text
      .replace(/export interface paths \{[\s\S]*?\n\}\n/, '')
      .replace(
        / +(headers|header|path|cookie|responses|parameters|requestBodies|pathItems)\??: (never|\{\s*\[name: string\]: unknown;\s*\});?\n/g,
        '',
      )
    await expect(head + types).toMatchFileSnapshot('openapi.generated.ts')
  } finally {
    await api.close()
    await db.drop()
  }
})
