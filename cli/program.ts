// All commands of sluice, one file per group. What they share is in command.ts.
import {Command} from 'commander'
import packageJson from '../package.json' with {type: 'json'}
import {addAddressCommands} from './address.ts'
import {addAuditCommand} from './audit.ts'
import {addBackupCommands} from './backup.ts'
import {addChainCommands} from './chain.ts'
import {addCustodyCommand} from './custody.ts'
import {addDatabaseCommands} from './database.ts'
import {addDevnetCommands} from './devnet.ts'
import {addDrillCommand} from './drill.ts'
import {addExportCommand} from './export.ts'
import {addIncidentCommands} from './incident.ts'
import {addInviteCommand} from './invite.ts'
import {addKeyCommands} from './key.ts'
import {addMerchantCommands} from './merchant.ts'
import {addMigrateCommand} from './migrate.ts'
import {addPayoutCommands} from './payout.ts'
import {addReindexCommand} from './reindex.ts'
import {addStatusCommand} from './status.ts'
import {addTokenCommands} from './token.ts'
import {addTreasuryCommands} from './treasury.ts'
import {addUnattributedCommands} from './unattributed.ts'
import {addWebhookCommands} from './webhook.ts'
import {addWhitelistCommands} from './whitelist.ts'

export function sluiceProgram(): Command {
  const program = new Command('sluice')
    .description(
      'Operates a running Sluice service. It finds the service by SLUICE_HOME (default: .sluice in the current directory), or by DATABASE_URL.',
    )
    .version(packageJson.version)
    .showHelpAfterError('(--help shows how to use it)')
    .addHelpText('after', '\nIn a checkout: npm run -s sluice -- status')
    .enablePositionalOptions()
    .exitOverride()

  addStatusCommand(program)
  addMerchantCommands(program)
  addKeyCommands(program)
  addInviteCommand(program)
  addWebhookCommands(program)
  addPayoutCommands(program)
  addWhitelistCommands(program)
  addTokenCommands(program)
  addTreasuryCommands(program)
  addAddressCommands(program)
  addUnattributedCommands(program)
  addIncidentCommands(program)
  addChainCommands(program)
  addReindexCommand(program)
  addAuditCommand(program)
  addExportCommand(program)
  addBackupCommands(program)
  addDrillCommand(program)
  addCustodyCommand(program)
  addMigrateCommand(program)
  addDatabaseCommands(program)
  addDevnetCommands(program)
  return program
}
