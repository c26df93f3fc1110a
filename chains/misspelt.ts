// Names of variables that are no setting. Promises: a line of the file .env that has no effect is refused, because a
// limit or a minimum whose name is misspelt would silently be the default; nothing of a line is shown unless it is a
// name in capitals, because it may be a part of a secret.
import {closest, distance} from 'fastest-levenshtein'
import type {Environment} from '../base/variables.ts'

/** What else stands in .env: docker compose and the containers read it, too, and so do Node and tests. */
const ofOthers =
  /^(COMPOSE|DOCKER|POSTGRES|NODE|PG|CONFORMANCE)_?\w*$|^\w+_BIN$|^(HTTPS?|NO|ALL)_PROXY$|^(LISTEN|PORT_2|DASHBOARD_PORT_2|TZ|UV_THREADPOOL_SIZE)$/

/** A problem for each line of a file .env that sets no variable, or one that is not known. */
export function wrongLines(text: string, known: string[]): string[] {
  return linesOf(text).flatMap(({number, line}) => {
    const name = /^(?:export\s+)?([\w.-]+)\s*=/.exec(line)?.[1]
    if (name === undefined) return `  line ${number}: is not NAME=value, such as PORT=8080; a comment begins with #`
    if (known.includes(name) || ofOthers.test(name)) return []
    const near = nearest(name, known)
    const shown = /^[A-Z][A-Z0-9_]*$/.test(name) ? `${name} is no setting` : 'names no setting'
    return `  line ${number}: ${shown}; ${near ? `did you mean ${near}?` : '.env.example lists all of them'}`
  })
}

/** The lines that are neither empty nor comments. A value in quotes may go on over several lines: it is one here. */
function linesOf(text: string): {number: number; line: string}[] {
  const lines = text.split(/\r?\n/)
  const found: {number: number; line: string}[] = []
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!.trim()
    if (line && !line.startsWith('#')) found.push({number: at + 1, line})
    const quote = /^[^#=]+=\s*(["'`])(?!.*\1)/.exec(line)?.[1]
    const end = quote ? lines.findIndex((other, index) => index > at && other.includes(quote)) : -1
    if (end > at) at = end
  }
  return found
}

/** What an image or the shell sets. */
const ofContainers = /^(PATH|HOME|HOSTNAME|PWD|OLDPWD|SHLVL|TERM|LANG|LC_\w+|_)$/

/** A problem for each variable of a container that has no effect: what is in .env reaches every container. */
export function wrongVariables(environment: Environment, known: string[]): string[] {
  const isKnown = (name: string) => known.includes(name) || ofOthers.test(name) || ofContainers.test(name)
  return Object.keys(environment)
    .filter(name => !isKnown(name))
    .map(name => `  ${unknownInWords(name, known)}: is no setting; .env.example lists all of them`)
}

/** The variables that begin like settings of ours and are none. Each may be meant for others. */
export function unknownVariables(environment: Environment, known: string[], chains: readonly string[]): string[] {
  const ours = new RegExp(`^(${[...chains, 'SLUICE', 'CUSTODY', 'DASHBOARD'].join('|')})_[A-Z0-9_]+$`)
  return Object.keys(environment).filter(name => ours.test(name) && environment[name] && !known.includes(name))
}

/** A variable in words, with the setting that it may be meant as. */
export function unknownInWords(name: string, known: string[]): string {
  const near = nearest(name, known)
  return near ? `${name} (did you mean ${near}?)` : name
}

/** The known name that is meant, if one is near enough. */
function nearest(name: string, known: string[]): string | undefined {
  const near = closest(name.toUpperCase(), known)
  return distance(name.toUpperCase(), near) <= Math.max(2, near.length / 4) ? near : undefined
}
