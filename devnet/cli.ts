// sluice devnet: pays from the faucet of a local chain, mines, reorganises. `node devnet/cli.ts --help`
// Promises: with --json exactly one line of JSON on stdout; errors on stderr, with exit code 1. It finds the chains by
// SLUICE_HOME alone.
import path from 'node:path'
import {Command, InvalidArgumentError} from 'commander'
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
    `Play with the local chains of a running service: pay, mine, reorganise.

The local chains are those that the service started because it was given no node for them;
each makes a block every second or two. They are found by SLUICE_HOME (default: .sluice in this directory).`,
  )
  .showHelpAfterError('(--help says how it is used)')

command('send', 'pay from the faucet, which is rich; returns once the payment is in a block')
  .requiredOption(
    '--token <token>',
    `the chain's own coin, or one of its tokens: ${tokens.join(', ')}; on EVM chains also EURC and JPYC`,
  )
  .requiredOption('--to <address>', 'who is paid')
  .requiredOption('--amount <amount>', 'how much, such as 1 or 0.25')
  .option('--fee-rate <rate>', 'where transactions spend outputs, in sat per virtual byte (default: 2)', feeRate)
  .addHelpText(
    'after',
    example('send --chain ETH --token USDC --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --amount 12.5'),
  )
  .action(
    run(async (chain, {token, to, amount, feeRate}: {token: string; to: string; amount: string; feeRate?: number}) => {
      const txid = await chain.send({token: token.toUpperCase(), to, amount, feeRate})
      return {json: {txid}, text: `paid ${amount} ${token.toUpperCase()} to ${to}\n${txid}`}
    }),
  )

command('mine', 'make blocks at once, to let time pass: a deposit is final some blocks below the head')
  .requiredOption('--blocks <number>', 'how many, up to 10000', wholeNumber)
  .addHelpText(
    'after',
    `
Each block is at least one second later than the one before, so that many blocks at once put the chain's clock ahead of
yours.
${example('mine --chain POLYGON --blocks 20')}`,
  )
  .action(
    run(async (chain, {blocks}: {blocks: number}) => {
      const {height, hash} = await chain.mine(blocks)
      return {json: {chain: chain.chain, height, hash}, text: `the head of ${chain.chain} is block ${height} ${hash}`}
    }),
  )

command('reorg', 'replace the newest blocks by others, as a chain does when it changes its mind')
  .requiredOption('--depth <number>', 'how many blocks to replace', wholeNumber)
  .option('--keep-transactions', 'mine their transactions again, each one block later than before')
  .option(
    '--double-spend <txid>',
    "where transactions spend outputs: mine another one with the inputs of this one, the faucet's, instead",
  )
  .addHelpText(
    'after',
    `
The blocks are replaced by one more new ones. Without --keep-transactions these are empty: what the old ones paid was
never paid. A depth that takes final blocks away (sluice status shows the final height) is what a real chain does not do: the service will halt.
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

await program.parseAsync()

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

/** What a command does: finds the chain, does it, shows what came of it or why not. */
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
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It must be a whole number, 1 or more.')
  return Number(text)
}

function feeRate(text: string): number {
  if (!/^\d{1,6}(\.\d+)?$/.test(text)) throw new InvalidArgumentError('It must be a number, such as 5 or 1.5.')
  return Number(text)
}
