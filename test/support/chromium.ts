// A real browser. CHROMIUM_BIN names one; test/install-chromium installs one.
import {existsSync} from 'node:fs'
import {type Browser, chromium} from 'playwright-core'

const executablePath = process.env.CHROMIUM_BIN || '/usr/bin/chromium'
const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]
if (process.env.CHROMIUM_BIN && !existsSync(executablePath))
  throw new Error(`CHROMIUM_BIN is ${executablePath}, which does not exist`)

export const hasChromium = existsSync(executablePath)
if (!hasChromium)
  console.warn(
    'Pages are not tested: there is no /usr/bin/chromium, and CHROMIUM_BIN is not set (test/install-chromium installs one).',
  )

export const launchChromium = (): Promise<Browser> => chromium.launch({executablePath, args: flags})
