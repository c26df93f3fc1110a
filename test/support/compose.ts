// docker-compose.yml as tests read it: with its variables filled in, and otherwise unchanged.
import {readFileSync} from 'node:fs'
import {parse} from 'yaml'
import {z} from 'zod'

const file = new URL('../../docker-compose.yml', import.meta.url)

const list = z.array(z.string()).default([])
const dependencies = z.union([
  z.array(z.string()).transform(names => names.map(name => [name, ''] as const)),
  conditions(),
])

function conditions() {
  const condition = z.object({condition: z.string()})
  return z
    .record(z.string(), condition)
    .transform(all => Object.entries(all).map(([name, on]) => [name, on.condition] as const))
}

const Service = z.object({
  image: z.string(),
  build: z.string().optional(),
  profiles: list,
  restart: z.string(),
  mem_limit: z.string().optional(),
  cpu_shares: z.number().optional(),
  user: z.string().optional(),
  read_only: z.boolean().optional(),
  init: z.boolean().optional(),
  stop_grace_period: z.string(),
  entrypoint: list,
  command: list,
  environment: z.record(z.string(), z.string()).default({}),
  env_file: z.array(z.object({path: z.string(), required: z.boolean()})).default([]),
  secrets: list,
  configs: z.array(z.object({source: z.string()})).default([]),
  volumes: list,
  ports: list,
  networks: list,
  depends_on: dependencies.default([]),
  healthcheck: z.object({test: list}).optional(),
})

const Compose = z.object({
  services: z.record(z.string(), Service),
  secrets: z.record(z.string(), z.object({file: z.string()})),
  configs: z.record(z.string(), z.object({content: z.string().optional(), file: z.string().optional()})),
  volumes: z.record(z.string(), z.null()),
  networks: z.record(
    z.string(),
    z.object({internal: z.boolean().optional(), driver_opts: z.record(z.string(), z.string()).optional()}),
  ),
})

/** ${NAME:-default}, as compose writes a variable; the default may hold others. */
const variable = /\$\{([A-Z][A-Z0-9_]*):-([^{}]*)\}/g

function filledIn(text: string, fill: (name: string, unless: string) => string): string {
  const filled = text.replace(variable, (_, name, unless) => fill(name, unless))
  return filled === text ? text : filledIn(filled, fill)
}

export function readCompose(environment: Record<string, string> = {}): z.infer<typeof Compose> {
  const text = filledIn(readFileSync(file, 'utf8'), (name, unless) => environment[name] || unless)
  return Compose.parse(parse(text, {merge: true}))
}

/** The variables that compose reads from a file .env, or from the environment. */
export function composeVariables(): string[] {
  const names = new Set<string>()
  const rest = filledIn(readFileSync(file, 'utf8').replace(/^ *#.*$/gm, ''), (name, unless) => {
    names.add(name)
    return unless
  })
  if (rest.includes('$')) throw new Error('a variable of docker-compose.yml has an unknown form')
  return [...names]
}
