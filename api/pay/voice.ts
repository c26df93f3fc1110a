// What the payment page says, in the language of its reader. Promises: amounts are written as wallets take them, with a
// point and without grouping, in every language, because people copy them by hand; what is filled in cannot turn the
// text around it (Unicode isolates, UAX #9).
import Negotiator from 'negotiator'
import {ar} from './languages/ar.ts'
import {de} from './languages/de.ts'
import {en, type Words} from './languages/en.ts'
import {es} from './languages/es.ts'
import {fr} from './languages/fr.ts'
import {ja} from './languages/ja.ts'
import {pt} from './languages/pt.ts'
import {ru} from './languages/ru.ts'
import {tr} from './languages/tr.ts'
import {zh} from './languages/zh.ts'

export const languages = {en, de, es, fr, pt, tr, ru, zh, ja, ar} satisfies Record<string, Words>
export type Language = keyof typeof languages
export const languageCodes = Object.keys(languages) as [Language, ...Language[]]

type Values = Record<string, string | number>

export interface Voice {
  language: Language
  isRightToLeft: boolean
  /** A text with its values filled in. */
  say(key: keyof Words, values?: Values): string
  /** Within other text, with a direction of its own. */
  isolated(value: string | number): string
  /** About this long: 40 sec, 12 min, 3 hr. */
  duration(ms: number): string
  /** A time, in UTC. */
  time(iso: string): string
}

/** The language that was asked for, else the best for the browser (RFC 9110, 12.5.4), else English. */
export function voiceFor(asked: Language | undefined, acceptLanguage: string | undefined): Voice {
  const negotiator = new Negotiator({headers: {'accept-language': acceptLanguage}})
  const language = asked ?? (negotiator.language(languageCodes) as Language | undefined) ?? 'en'
  return voices[language]
}

/** Letters of Hebrew, Arabic and their neighbours. */
const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/

const voices = Object.fromEntries(languageCodes.map(code => [code, voiceOf(code)])) as Record<Language, Voice>

function voiceOf(language: Language): Voice {
  const words: Words = languages[language]
  const isRightToLeft = language === 'ar'
  const isolated = (value: string | number) =>
    isRightToLeft || rightToLeft.test(String(value)) ? `\u2068${value}\u2069` : String(value)
  const latin = {numberingSystem: 'latn'}
  const units = {second: unitOf('second'), minute: unitOf('minute'), hour: unitOf('hour')}
  const times = new Intl.DateTimeFormat(language, {...latin, dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC'})
  function unitOf(unit: string): Intl.NumberFormat {
    return new Intl.NumberFormat(language, {...latin, style: 'unit', unit, unitDisplay: 'short'})
  }
  return {
    language,
    isRightToLeft,
    isolated,
    say: (key, values = {}) => words[key].replace(/\{(\w+)\}/g, (_, name: string) => isolated(values[name] ?? '')),
    duration(ms) {
      const seconds = Math.max(1, Math.ceil(ms / 1000))
      if (seconds < 90) return units.second.format(seconds)
      return seconds < 90 * 60
        ? units.minute.format(Math.ceil(seconds / 60))
        : units.hour.format(Math.ceil(seconds / 3600))
    },
    time: iso => `${times.format(new Date(iso))} UTC`,
  }
}
