// Why a block must not hold a transaction.

export class Rejected extends Error {
  override name = 'Rejected'
  /** As a node names it. */
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

export const invalid = (message: string) => new Rejected('CONTRACT_VALIDATE_ERROR', message)
