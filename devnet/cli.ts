// sluice devnet: pays from the faucet of a local chain, mines, reorganises. `node devnet/cli.ts --help` Promises: with
// --json exactly one line of JSON on stdout; errors on stderr, with exit code 2 if the command line is wrong, else 1.
// It finds the chains only by SLUICE_HOME.
import path from 'node:path'
import {Command, CommanderError, InvalidArgumentError} from 'commander'
import {chains, findChain} from '../chains/registry.ts'
import type {LocalClient} from './client.ts'
import {findLocalChain} from './families.ts'

type Options = {chain: string; json?: boolean}
type Outcome = {json: object; text: string}
type Reorg = {depth: number; keepTransactions?: boolean; doubleSpend?: string}

const codes = chains.map(({code}) => code)
const tokens = [...new Set(chains.flatMap(({assets}) => assets.map(({token}) => token)))]

const program = new Command('sluice devnet')
  .description(
    `Controls the local test chains of a running service: pay, mine, reorganise.

The service starts a local chain for each chain that has no node in the settings.
A local chain makes a block every second or two, and rarely while nothing is sent.
It is found by SLUICE_HOME (default: .sluice in this directory).`,
  )
  .showHelpAfterError('(--help shows how to use it)')
  .exitOverride()

command('send', 'pay from the faucet; returns once the payment is in a block')
  .requiredOption(
    '--token <token>',
    `the native coin, or one of the tokens of the chain: ${tokens.join(', ')}; on EVM chains also EURC, JPYC and USDT, on Solana PYUSD and FEEUSD`,
  )
  .requiredOption('--to <address>', 'the address to pay')
  .requiredOption('--amount <amount>', 'how much, such as 1 or 0.25')
  .option('--fee-rate <rate>', 'Bitcoin only: fee rate in sat/vB (default: 2)', feeRate)
  .addHelpText(
    'after',
    example('send --chain ETH --token USDC --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --amount 12.5'),
  )
  .action(
    run(async (chain, {token, to, amount, feeRate}: {token: string; to: string; amount: string; feeRate?: number}) => {
      if (/^0+(\.0+)?$/.test(amount)) throw new Error('the amount must be above zero')
      const txid = await chain.send({token: token.toUpperCase(), to, amount, feeRate})
      return {json: {txid}, text: `paid ${amount} ${token.toUpperCase()} to ${to}\n${txid}`}
    }),
  )

command('mine', 'mine blocks at once, for example to make a deposit final')
  .requiredOption('--blocks <number>', 'how many, up to 10000', wholeNumber)
  .addHelpText(
    'after',
    `
Each block is at least one second later than the one before, so mining many blocks at once sets the chain's clock ahead of
yours.
${example('mine --chain POLYGON --blocks 20')}`,
  )
  .action(
    run(async (chain, {blocks}: {blocks: number}) => {
      const {height, hash} = await chain.mine(blocks)
      return {json: {chain: chain.chain, height, hash}, text: `the head of ${chain.chain} is block ${height} ${hash}`}
    }),
  )

command('reorg', 'reorganise the chain: replace its newest blocks by others')
  .requiredOption('--depth <number>', 'how many blocks to replace', wholeNumber)
  .option('--keep-transactions', 'mine their transactions again, each one block later than before')
  .option(
    '--double-spend <txid>',
    'Bitcoin only: instead of this transaction of the faucet, mine another one with the same inputs',
  )
  .addHelpText(
    'after',
    `
The new blocks are one more than the old ones. Without --keep-transactions they are empty: the payments in the old blocks are
gone. On Solana and Tron a transaction names an earlier block: one that names a replaced block is gone in any case. Do not
replace final blocks (sluice status shows the final height): a real chain does not do that, and the service halts it.
${example('reorg --chain ETH --depth 3 --keep-transactions')}`,
  )
  .action(
    run(async (chain, {depth, keepTransactions, doubleSpend}: Reorg) => {
      const {height, hash} = await chain.reorg(depth, {keepTransactions, doubleSpend})
      return {
        json: {chain: chain.chain, depth, head: {height, hash}},
        text: `${depth} blocks of ${chain.chain} were replaced; the head is block ${height} ${hash}`,
      }
    }),
  )

try {
  await program.parseAsync()
} catch (error) {
  if (!(error instanceof CommanderError)) throw error
  process.exitCode = error.exitCode === 0 ? 0 : 2
}

function command(name: string, description: string): Command {
  return program
    .command(name)
    .description(description)
    .requiredOption('--chain <chain>', codes.join(' or '))
    .option('--json', 'print one line of JSON')
}

function example(line: string): string {
  return `\nExample:\n  sluice devnet ${line}`
}

/** Runs a command: finds the chain, does the work, shows the result or the error. */
function run<More extends object>(work: (chain: LocalClient, options: More) => Promise<Outcome>) {
  return async (options: Options & More): Promise<void> => {
    try {
      const {json, text} = await work(await find(options.chain.toUpperCase()), options)
      console.log(options.json ? JSON.stringify(json) : text)
    } catch (error) {
      console.error(`error: ${error instanceof Error ? error.message : error}`)
      process.exitCode = 1
    }
  }
}

async function find(code: string): Promise<LocalClient> {
  const chain = findChain(code)
  if (!chain) throw new Error(`there is no local chain ${code}; there are ${codes.join(', ')}`)
  return await findLocalChain(path.resolve(process.env.SLUICE_HOME || '.sluice'), chain.code)
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It must be a whole number from 1 to 999999999.')
  return Number(text)
}

function feeRate(text: string): number {
  if (!/^\d{1,6}(\.\d+)?$/.test(text)) throw new InvalidArgumentError('It must be a number, such as 5 or 1.5.')
  return Number(text)
}
