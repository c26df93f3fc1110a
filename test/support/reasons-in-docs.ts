// What the docs and the alarms say of reasons, from the one table of them (base/reasons.ts). npm run snapshot writes it
// into the files; a test compares.
import {readFileSync, writeFileSync} from 'node:fs'
import {failureCodes, type Reason, reasons, waitingCodes, wroteWrongRows} from '../../base/reasons.ts'

const all = Object.entries<Reason>(reasons)
const codes = (which: (reason: Reason) => boolean) => all.filter(([, reason]) => which(reason)).map(([code]) => code)

const quoted = (names: string[]) => names.map(name => `\`${name}\``).join(', ')
const table = (head: string[], rows: string[][]) =>
  [
    `| ${head.join(' | ')} |`,
    `|${head.map(() => '---|').join('')}`,
    ...rows.map(cells => `| ${cells.join(' | ')} |`),
  ].join('\n')

/** What an operator does, and what becomes of the payout otherwise. */
function remedy({ends, fails = 'timed_out', isOfReturns, do: whole}: Reason): string {
  const what = whole === wroteWrongRows ? 'an alarm' : whole
  if (what.includes('the payout fails') || ends === 'by itself' || isOfReturns) return what
  if (ends === 'by a person') return `${what}; else the payout fails in the end with \`${fails}\``
  return `${what}; fails with \`${fails}\` after 30 s`
}

/** Reasons for which an operator looks for the same in the same place are one row. */
function operators(which: (reason: Reason) => boolean): string {
  const rows = new Map<string, {names: string[]; cells: string[]}>()
  for (const [code, reason] of all.filter(([, each]) => which(each))) {
    const isWrong = reason.do === wroteWrongRows
    const cells = [isWrong ? "the database contradicts custody's journal, or the chain" : reason.why, remedy(reason)]
    const row = rows.get(isWrong ? cells.join() : code)
    if (row) row.names.push(code)
    else rows.set(isWrong ? cells.join() : code, {names: [code], cells})
  }
  return table(
    ['waits for', 'why', 'do'],
    [...rows.values()].map(({names, cells}) => [quoted(names), ...cells]),
  )
}

const tables: Record<string, () => string> = {
  waiting: () => table(['`waiting.code`', 'why the payout waits'], pairs(waitingCodes)),
  failures: () => table(['`error.code` of a failed payout', 'what happened'], pairs(failureCodes)),
  payouts: () => operators(({isOfReturns}) => !isOfReturns),
  returns: () => operators(({isOfReturns}) => isOfReturns === true),
  refusals: () =>
    table(
      ['refused with', 'what becomes of it'],
      (
        [
          [
            'by itself',
            'it passes by itself, or once its cause is gone. Everything waits, and nothing fails or is cancelled because of it',
          ],
          [
            'by a person',
            'it needs a person. A payout waits, and fails after `PAYOUT_TIMEOUT_MS` (72 h). A withdrawal is cancelled at once, if nothing was signed for it',
          ],
          [
            'never',
            'it can never pass. A payout fails after 30 s, and a sweep or a withdrawal is cancelled at once, if nothing was signed for it',
          ],
        ] as const
      ).map(([end, words]) => [quoted(codes(({isRefusal, ends}) => isRefusal === true && ends === end)), words]),
    ),
}

function pairs(words: Record<string, string>): string[][] {
  return Object.entries(words).map(([code, what]) => [`\`${code}\``, what])
}

const marked = /(?<=^<!-- written from base\/reasons\.ts: (\w+) -->\n)[^<]*(?=<!-- end -->$)/gm
const inDocs = (text: string) => text.replace(marked, (_, name: string) => `\n${tables[name]!()}\n\n`)

function inAlarms(text: string): string {
  const never = codes(({alarm}) => alarm === 'never').join('|')
  const atOnce = codes(({alarm}) => alarm === 'at once').join('|')
  return text
    .replace(/(?<=sluice_payout_oldest_wait_seconds\{reason[!=]~")[^"]*/g, never)
    .replace(/(?<=sluice_custody_refusals_total\{code=~")[^"]*/g, atOnce)
}

/** The files, each with what makes its text from its text. */
const files: Record<string, (text: string) => string> = {
  'docs/api.md': inDocs,
  'docs/custody.md': inDocs,
  'docs/operations.md': inDocs,
  'docs/operations/unattributed.md': inDocs,
  'docs/operations/alerts.yml': inAlarms,
}

/** Each file, as it is and as it is to be. */
export function reasonsInDocs(): {file: URL; is: string; toBe: string}[] {
  return Object.entries(files).map(([name, write]) => {
    const file = new URL(`../../${name}`, import.meta.url)
    const is = readFileSync(file, 'utf8')
    return {file, is, toBe: write(is)}
  })
}

export function writeReasonsInDocs(): void {
  for (const {file, toBe} of reasonsInDocs()) writeFileSync(file, toBe)
}
