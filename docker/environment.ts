// Refuses what the file .env of docker compose must not have: node docker/environment.ts. Promises: no value is shown;
// the service that runs is not touched, because this runs before `sluice migrate`, and nothing else is started then.
// Each process also warns of what has no effect in the words of a setting.
import type {Environment} from '../base/variables.ts'
import {wrongVariables} from '../chains/misspelt.ts'
import {settingNames} from '../chains/settings.ts'

/** What may be in a file, too, and has none in ./secrets. */
const notInSecrets = /^DATABASE_REPLICA_URL$|_TOKENS$/

/** In lines, with what to do: what has no effect, and what belongs in a file of ./secrets. */
export function wrongEnvironment(environment: Environment): string[] {
  const known = settingNames()
  const exposed = known.filter(name => environment[name] && known.includes(`${name}_FILE`) && !notInSecrets.test(name))
  return [
    ...wrongVariables(environment, known),
    ...exposed.map(
      name =>
        `  ${name}: every container would see it; write it into secrets/${name.toLowerCase()}, and remove it from .env`,
    ),
  ]
}

if (import.meta.main) {
  const wrong = wrongEnvironment(process.env)
  if (wrong.length) {
    console.error(`the file .env has what it must not have; nothing was changed:\n${wrong.join('\n')}`)
    process.exit(1)
  }
}
