// The package as merchants install it: small, and usable by its built files alone.
import {execFile} from 'node:child_process'
import {mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {promisify} from 'node:util'
import {expect, test} from 'vitest'
import {z} from 'zod'

const run = promisify(execFile)
const root = path.resolve(import.meta.dirname, '..')
const mostBytes = 30_000
const Packed = z.tuple([z.object({filename: z.string(), size: z.int(), files: z.array(z.object({path: z.string()}))})])

/** A program in JavaScript that imports nothing but the package, and its types' own errors. */
const program = `import {Amount, Sluice, verify, WebhookError} from '@sluice/client'
try { verify('{}', {}, 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw') } catch (error) {
  const sluice = new Sluice({apiKey: 'sk_x', baseUrl: 'https://pay.example'})
  console.log(error instanceof WebhookError, error.reason, Amount.add('0.1', '0.2'), typeof sluice.payouts.create)
}`

test('the package has fewer than 30 kB, no file but its own, and works where it is installed', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-client-'))
  try {
    const {stdout} = await run('npm', ['pack', '--json', '--silent', '--pack-destination', folder], {
      cwd: import.meta.dirname,
      env: {...process.env, PATH: `${path.join(root, 'node_modules/.bin')}:${process.env.PATH}`},
    })
    const [{filename, size, files}] = Packed.parse(JSON.parse(stdout.slice(stdout.indexOf('['))))
    expect(size).toBeLessThan(mostBytes)
    expect(files.filter(file => !/^(package\.json|dist\/[\w.]+\.(js|d\.ts)|README\.md)$/.test(file.path))).toEqual([])
    const modules = path.join(folder, 'node_modules')
    const installed = path.join(modules, '@sluice/client')
    mkdirSync(installed, {recursive: true})
    await run('tar', ['-xzf', path.join(folder, filename), '-C', installed, '--strip-components=1'])
    for (const name of ['standardwebhooks', '@stablelib', 'fast-sha256'])
      symlinkSync(path.join(root, 'node_modules', name), path.join(modules, name))
    writeFileSync(path.join(folder, 'shop.mjs'), program)
    const said = await run(process.execPath, [path.join(folder, 'shop.mjs')])
    expect(said.stdout).toBe('true missing_headers 0.3 function\n')
  } finally {
    rmSync(folder, {recursive: true, force: true})
    rmSync(path.join(import.meta.dirname, 'dist'), {recursive: true, force: true})
  }
})
