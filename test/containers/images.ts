// The images of others that the Dockerfiles and compose files name.
import {readFileSync} from 'node:fs'
import path from 'node:path'
import {root} from './installation.ts'

/** With their tags; each has a stand-in in base/Dockerfile. */
export function imagesNamed(names: string[]): string[] {
  const files = ['Dockerfile', 'docker-compose.yml', 'docker-compose.cluster.yml']
  const text = files.map(name => readFileSync(path.join(root, name), 'utf8')).join('\n')
  return names.map(name => {
    const [, found] = new RegExp(`^(?:FROM|\\s*image:) (${name}:\\S+)`, 'm').exec(text) ?? []
    if (!found) throw new Error(`no file names an image ${name}`)
    return found
  })
}
