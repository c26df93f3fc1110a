// The error that carries why custody does not sign, from the check to the response.
import type {RefusalCode} from '../../base/reasons.ts'
import type {Refused} from '../intents.ts'

export class Refusal extends Error {
  readonly code: RefusalCode
  readonly needed: Refused['needed']

  constructor(code: RefusalCode, message: string, needed?: Refused['needed']) {
    super(message)
    this.code = code
    this.needed = needed
  }
}
