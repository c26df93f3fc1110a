// Compiles the contracts of a family, devnet/FAMILY/contracts/*.sol, into devnet/FAMILY/contracts.json, which is
// committed: `node devnet/compile.ts`.
// Promises: the same sources give the same bytecode (no metadata hash, a fixed compiler and EVM version).
import {readdir, readFile, writeFile} from 'node:fs/promises'
import {createRequire} from 'node:module'
import path from 'node:path'
import {z} from 'zod'

const Output = z.object({
  errors: z.array(z.object({severity: z.string(), formattedMessage: z.string()})).default([]),
  contracts: z.record(
    z.string(),
    z.record(
      z.string(),
      z.object({abi: z.array(z.unknown()), evm: z.object({bytecode: z.object({object: z.string()})})}),
    ),
  ),
})

export const families = ['evm', 'tron']

/** Name of the contract to its ABI and creation bytecode (0x…). Throws with the compiler's words. */
export async function compile(family: string): Promise<Record<string, {abi: unknown[]; bytecode: string}>> {
  const solc = createRequire(import.meta.url)('solc') as {compile(input: string): string} // it has no types
  const directory = path.join(import.meta.dirname, family, 'contracts')
  const names = (await readdir(directory)).filter(name => name.endsWith('.sol')).sort()
  const sources = Object.fromEntries(
    await Promise.all(names.map(async name => [name, {content: await readFile(path.join(directory, name), 'utf8')}])),
  )
  const settings = {
    evmVersion: 'cancun',
    optimizer: {enabled: true, runs: 200},
    metadata: {bytecodeHash: 'none'},
    outputSelection: {'*': {'*': ['abi', 'evm.bytecode.object']}},
  }
  const output = Output.parse(JSON.parse(solc.compile(JSON.stringify({language: 'Solidity', sources, settings}))))
  const failed = output.errors.filter(error => error.severity === 'error')
  if (failed.length > 0) throw new Error(failed.map(error => error.formattedMessage).join('\n'))
  return Object.fromEntries(
    Object.values(output.contracts)
      .flatMap(contracts => Object.entries(contracts))
      .map(([name, {abi, evm}]) => [name, {abi, bytecode: `0x${evm.bytecode.object}`}]),
  )
}

if (import.meta.main)
  for (const family of families) {
    const file = path.join(import.meta.dirname, family, 'contracts.json')
    await writeFile(file, `${JSON.stringify(await compile(family), null, 2)}\n`)
  }
