// The parts of an OpenAPI document, and of its JSON schemas, that are made or read here; what its references name; and
// examples, made from those of the fields.
export interface Schema {
  $ref?: string
  type?: string | string[]
  description?: string
  properties?: Record<string, Schema>
  items?: Schema
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
  required?: string[]
  examples?: unknown[]
  default?: unknown
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  format?: string
}
export type Content = Record<string, {schema: Schema; example?: unknown}>
export interface Header {
  description: string
  schema: Schema
  example: unknown
}
export interface Response {
  $ref?: string
  description: string
  headers?: Record<string, {$ref: string}>
  content?: Content
}
export interface Operation {
  tags?: string[]
  operationId?: string
  summary?: string
  description?: string
  security?: unknown[]
  parameters?: {name: string; in: string; required?: boolean; description?: string; schema: Schema; example?: unknown}[]
  requestBody?: {required?: boolean; content: Content}
  responses: Record<string, Response>
}
export interface OpenApi {
  info: {title: string; version: string; description: string}
  tags: {name: string; description: string}[]
  components: {
    schemas: Record<string, Schema>
    headers: Record<string, Header>
    responses: Record<string, Response>
  }
  paths: Record<string, Record<string, Operation>>
  webhooks: Record<string, {post: Operation}>
}

/** A response of the document, which may be one that several routes share. */
export function responseOf(document: OpenApi, response: Response): Response {
  const name = response.$ref?.split('/').at(-1)
  return name === undefined ? response : document.components.responses[name]!
}

/** The schema that a reference names. */
export function resolve(document: OpenApi, schema: Schema): Schema {
  const name = schema.$ref?.split('/').at(-1)
  return (name && document.components.schemas[name]) || schema
}

/**
 * A value that the schema allows, from the examples of its parts. Optional fields are left out, unless they have one.
 */
export function exampleOf(document: OpenApi, schema: Schema): unknown {
  const target = {...resolve(document, schema), ...schema}
  if (target.examples) return target.examples[0]
  if (target.const !== undefined) return target.const
  if (target.enum) return target.enum[0]
  const [option] = target.anyOf ?? target.oneOf ?? []
  if (option) return exampleOf(document, option)
  if (target.items) return [exampleOf(document, target.items)]
  if (target.properties) {
    return Object.fromEntries(
      Object.entries(target.properties)
        .filter(([name, field]) => target.required?.includes(name) || field.examples)
        .map(([name, field]) => [name, exampleOf(document, field)]),
    )
  }
  const type = [target.type].flat()[0]
  if (type === 'null') return null
  return type === 'integer' || type === 'number' ? 1 : type === 'boolean' ? true : 'text'
}
