// sluice devnet: pays from the faucet of a local chain, mines, reorganises. `node devnet/cli.ts --help`
// Promises: with --json exactly one line of JSON on stdout; errors on stderr, with exit code 1. It finds the chains by
// SLUICE_HOME alone.
import path from 'node:path'
import {Command, InvalidArgumentError} from 'commander'
import {chainIds, isLocalChainCode} from './constants.ts'
import {connect, type LocalChainClient} from './evm.ts'
import {readDevnet} from './file.ts'

type Options = {chain: string; json?: boolean}
type Outcome = {json: object; text: string}

const program = new Command('sluice devnet')
  .description(
    `Play with the local chains of a running service: pay, mine, reorganise.

The local chains are those that the service started because it was given no node for them;
each makes a block every second. They are found by SLUICE_HOME (default: .sluice in this directory).`,
  )
  .showHelpAfterError('(--help tells how it is used)')

command('send', 'pay from the faucet, which is rich; returns once the payment is in a block')
  .requiredOption('--token <token>', "the chain's own coin (ETH, POL), or USDC")
  .requiredOption('--to <address>', 'who is paid')
  .requiredOption('--amount <amount>', 'how much, such as 1 or 0.25')
  .addHelpText(
    'after',
    example('send --chain ETH --token USDC --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --amount 12.5'),
  )
  .action(
    run(async (chain, options: {token: string; to: string; amount: string}) => {
      const txid = await chain.send({...options, token: options.token.toUpperCase()})
      return {json: {txid}, text: `paid ${options.amount} ${options.token.toUpperCase()} to ${options.to}\n${txid}`}
    }),
  )

command('mine', 'make blocks at once, to let time pass: a deposit is final 8 blocks below the head')
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
  .addHelpText(
    'after',
    `
The blocks are replaced by one more new ones. Without --keep-transactions these are empty: what the old ones paid was
never paid. A depth above 8 takes final blocks away, which a real chain does not do: the service will halt.
${example('reorg --chain ETH --depth 3 --keep-transactions')}`,
  )
  .action(
    run(async (chain, {depth, keepTransactions = false}: {depth: number; keepTransactions?: boolean}) => {
      const {height, hash} = await chain.reorg(depth, {keepTransactions})
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
    .requiredOption('--chain <chain>', `${Object.keys(chainIds).join(' or ')}`)
    .option('--json', 'print one line of JSON')
}

function example(line: string): string {
  return `\nExample:\n  sluice devnet ${line}`
}

/** What a command does: finds the chain, does it, shows what came of it or why not. */
function run<More extends object>(work: (chain: LocalChainClient, options: More) => Promise<Outcome>) {
  return async (options: Options & More): Promise<void> => {
    try {
      const {json, text} = await work(await findChain(options.chain.toUpperCase()), options)
      console.log(options.json ? JSON.stringify(json) : text)
    } catch (error) {
      console.error(`error: ${error instanceof Error ? error.message : error}`)
      process.exitCode = 1
    }
  }
}

async function findChain(code: string): Promise<LocalChainClient> {
  if (!isLocalChainCode(code))
    throw new Error(`there is no local chain ${code}; there are ${Object.keys(chainIds).join(' and ')}`)
  const home = path.resolve(process.env.SLUICE_HOME || '.sluice')
  const devnet = readDevnet(path.join(home, 'devnet', code.toLowerCase()))
  const client = devnet && (await connect(devnet.rpc_url).catch(() => undefined))
  // Another program, or another service's chain, may have got the port of one that was killed.
  if (!client || client.chain !== code)
    throw new Error(`no local ${code} chain runs in ${home}; start the service, or set SLUICE_HOME to its directory`)
  return client
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It must be a whole number, 1 or more.')
  return Number(text)
}
