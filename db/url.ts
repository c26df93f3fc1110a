// Prints the URL with which a role of the database connects: node db/url.ts [role] (default: sluice_analyst). It contains the role's password.
import {z} from 'zod'
import {readService} from '../base/home.ts'
import {loadEnvironmentFile, readSettings} from '../chains/settings.ts'
import {roles, roleUrl} from './migrate.ts'

loadEnvironmentFile()
const role = z.enum(roles).safeParse(process.argv[2] ?? 'sluice_analyst')
const {databaseUrl, home} = readSettings()
const ownerUrl = databaseUrl ?? readService(home)?.database_url
if (role.success && ownerUrl) console.log(roleUrl(ownerUrl, role.data))
else {
  console.error(
    role.success
      ? `no service runs in ${home}; start it with npm start, or set DATABASE_URL or SLUICE_HOME`
      : `${process.argv[2]} is not a role; roles are ${roles.join(', ')}`,
  )
  process.exitCode = 1
}
