// What real nodes said (test/recorded/README.md), and a node that says it again. Promises: a request that was recorded
// gets its very response; any other gets an error.
import {readFileSync} from 'node:fs'
import {isDeepStrictEqual} from 'node:util'
import {z} from 'zod'
import {parseJson} from '../../base/json.ts'
import {RpcProxy} from './rpc-proxy.ts'

/** The folder of the recordings. */
export const recordings = new URL('../recorded/', import.meta.url)

const Exchange = z.object({
  request: z.union([
    z.object({path: z.string(), body: z.unknown()}),
    z.object({method: z.string(), params: z.array(z.unknown())}),
  ]),
  response: z.unknown(),
})
type Exchange = z.infer<typeof Exchange>

const RpcResponse = z.union([
  z.object({error: z.object({code: z.int(), message: z.string(), data: z.unknown().optional()})}),
  z.object({result: z.unknown()}),
])

/** The content of a file, by its path without the ending, such as tron/block-none. */
export function recorded<T>(name: string, schema: z.ZodType<T>): T {
  return schema.parse(parseJson(readFileSync(new URL(`${name}.json`, recordings), 'utf8')))
}

/**
 * A node that knows these exchanges alone. In JSON-RPC, options make no other request of it: they are what we ask for
 * now.
 */
export async function replay(...names: string[]): Promise<RpcProxy> {
  const exchanges = names.map(name => recorded(name, Exchange))
  return await RpcProxy.start({
    async call(method, params) {
      const found = exchanges.find(({request}) => isSame(request, method, params))
      if (!found) throw new Error(`not recorded: ${method} ${JSON.stringify(params)}`)
      return 'path' in found.request ? found.response : resultOf(found.response)
    },
  })
}

function isSame(request: Exchange['request'], method: string, [first]: unknown[]): boolean {
  if ('path' in request) return `/${request.path}` === method && isDeepStrictEqual(request.body, first)
  return request.method === method && isDeepStrictEqual(subject(request.params), subject([first]))
}

/** The first parameter; undefined if it is options. */
const subject = ([first]: unknown[]) => (typeof first === 'object' && !Array.isArray(first) ? undefined : first)

/** Throws the node's error. */
function resultOf(response: unknown): unknown {
  const parsed = RpcResponse.parse(response)
  if ('error' in parsed) throw Object.assign(new Error(parsed.error.message), parsed.error)
  return parsed.result
}
