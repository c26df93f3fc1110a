// Why custody does not sign, as it travels from whoever finds it to the answer.
import type {RefusalCode, Refused} from './intents.ts'

/** What a signature is for. */
export type Kind = 'pay' | 'sweep' | 'withdraw' | 'cancel'

export class Refusal extends Error {
  readonly code: RefusalCode
  readonly needed: Refused['needed']

  constructor(code: RefusalCode, message: string, needed?: Refused['needed']) {
    super(message)
    this.code = code
    this.needed = needed
  }
}
