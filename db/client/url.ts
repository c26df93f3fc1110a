// Prints the URL with which a role of the database connects, or its owner: node db/client/url.ts [role] (default:
// sluice_analyst). It contains the password.
import {z} from 'zod'
import {PermanentError} from '../../base/errors.ts'
import {readService} from '../../base/home.ts'
import {loadEnvironmentFile, readSettings} from '../../chains/settings.ts'
import {roles, roleUrl} from '../migrate/migrate.ts'

function urlOf(given: string): string {
  const role = z.enum(['owner', ...roles]).safeParse(given)
  if (!role.success) throw new PermanentError(`${given} is not a role; roles are owner, ${roles.join(', ')}`)
  loadEnvironmentFile()
  const {databaseUrl, home} = readSettings()
  const ownerUrl = databaseUrl ?? readService(home)?.database_url
  if (!ownerUrl)
    throw new PermanentError(`no service runs in ${home}; start it with npm start, or set DATABASE_URL or SLUICE_HOME`)
  return role.data === 'owner' ? ownerUrl : roleUrl(ownerUrl, role.data)
}

try {
  console.log(urlOf(process.argv[2] ?? 'sluice_analyst'))
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 1
}
