// The virtual machine that executes transactions: litesvm, the network's own code for transactions and programs. It
// holds the accounts after one block; the journal has those of every block, so that a machine can be made for any of
// them.
import {createRequire} from 'node:module'
import {type Address, getAddressDecoder} from '@solana/kit'
import {
  Clock,
  type FailedTransactionMetadata as Failed,
  FailedTransactionMetadata,
  LiteSVM,
  Rent,
  type TransactionMetadata,
} from 'litesvm'
import type * as internal from 'litesvm/dist/internal.js'
import {instructionErrors, transactionErrors} from './errors.ts'
import type {Account, Changes, Included, TokenBalance, TransactionError} from './journal.ts'
import {feeOf, type Transaction} from './transaction.ts'

/** Its errors are not exported by its main module. */
const litesvm: typeof internal = createRequire(import.meta.url)('litesvm/dist/internal.js')

/** A transaction that a block must not hold. */
export class Rejected extends Error {
  override name = 'Rejected'
  readonly error: TransactionError
  readonly logs: string[]

  constructor(error: TransactionError, logs: string[] = []) {
    super(typeof error === 'string' ? error : JSON.stringify(error))
    this.error = error
    this.logs = logs
  }
}

export class Machine {
  readonly #svm = new LiteSVM()
    .withBlockhashCheck(false) // it knows one blockhash: chain.ts checks them
    .withTransactionHistory(0n) // it would refuse what a fork took back: chain.ts refuses what is there
    .withNativeMints()

  /** `rent`: lamports for each byte, twice a year. */
  constructor(accounts: Iterable<[string, Account]>, rent: bigint) {
    this.#svm.setRent(new Rent(rent, 1, 50))
    for (const [address, account] of accounts) this.set(address, account)
  }

  set(address: string, {lamports, data, owner, executable}: Account): void {
    const at = {address: address as Address, programAddress: owner as Address}
    this.#svm.setAccount({...at, lamports: lamports as never, data, executable, space: BigInt(data.length)})
  }

  get(address: string): Account | undefined {
    const found = this.#svm.getAccount(address as Address)
    if (!found.exists || found.lamports === 0n) return undefined
    const {lamports, data, programAddress: owner, executable} = found
    return {lamports, data: new Uint8Array(data), owner, executable}
  }

  rentMinimum(bytes: number): bigint {
    return this.#svm.minimumBalanceForRentExemption(BigInt(bytes))
  }

  /** Programs see the time of the block that is made now. */
  setTime(slot: number, seconds: number): void {
    const clock = this.#svm.getClock()
    const {epochStartTimestamp, epoch, leaderScheduleEpoch} = clock
    this.#svm.setClock(new Clock(BigInt(slot), epochStartTimestamp, epoch, leaderScheduleEpoch, BigInt(seconds)))
  }

  /**
   * Who pays a fee must hold nothing or the rent after it, before the instructions run: a leader takes no other
   * transaction, whatever its end would be (Agave's check_rent_state). litesvm looks at the end alone.
   */
  #assertPayerKeepsRent(transaction: Transaction): void {
    const payer = this.get(transaction.keys[0]!)
    if (!payer) return
    const [left, rent] = [payer.lamports - feeOf(transaction), this.rentMinimum(payer.data.length)]
    const hadLess = payer.lamports < rent // such an account may lose more
    if (left > 0n && left < rent && !hadLess) throw new Rejected({InsufficientFundsForRent: {account_index: 0}})
  }

  /**
   * Executes a transaction. One that fails, but pays its fee, is executed. Throws Rejected if a block must not hold it.
   */
  execute(transaction: Transaction): Omit<Included, 'raw'> {
    const {keys, txid} = transaction
    this.#assertPayerKeepsRent(transaction)
    const [before, tokensBefore] = [this.#balances(keys), this.#tokens(keys)]
    const result = this.#svm.sendTransaction(transaction.signed as never)
    const [metadata, error] = outcome(result)
    if (typeof error === 'string') throw new Rejected(error, metadata.logs())
    const after = this.#balances(keys)
    const sum = (balances: bigint[]) => balances.reduce((a, b) => a + b, 0n)
    return {
      txid,
      keys,
      error,
      fee: sum(before) - sum(after),
      before,
      after,
      tokensBefore,
      tokensAfter: this.#tokens(keys),
      logs: metadata.logs(),
      units: metadata.computeUnitsConsumed(),
    }
  }

  /** Throws Rejected if the transaction would fail now, whoever signed it if signatures are not checked. */
  simulate(transaction: Transaction, checksSignatures = true): void {
    this.#assertPayerKeepsRent(transaction)
    const result = this.#svm.withSigverify(checksSignatures).simulateTransaction(transaction.signed as never)
    this.#svm.withSigverify(true)
    if (!(result instanceof FailedTransactionMetadata)) return
    const [metadata, error] = outcome(result)
    throw new Rejected(error ?? 'unknown', metadata.logs())
  }

  /** The accounts that transactions may have changed, as they are now. */
  changes(transactions: Transaction[]): Changes {
    const addresses = new Set(transactions.flatMap(({keys, writable}) => keys.filter((_, i) => writable[i])))
    return new Map([...addresses].map(address => [address, this.get(address)]))
  }

  #balances(keys: string[]): bigint[] {
    return keys.map(key => this.#svm.getBalance(key as Address) ?? 0n)
  }

  #tokens(keys: string[]): TokenBalance[] {
    return keys.flatMap((key, index): TokenBalance[] => {
      const account = this.get(key)
      if (!account?.owner.startsWith('Token') || account.data.length < 165) return []
      const [mint, owner] = [0, 32].map(at => getAddressDecoder().decode(account.data, at)) as [Address, Address]
      const amount = Buffer.from(account.data).readBigUInt64LE(64)
      return [{index, mint, owner, program: account.owner, amount, decimals: this.get(mint)?.data[44] ?? 0}]
    })
  }
}

function outcome(result: TransactionMetadata | Failed): [TransactionMetadata, TransactionError | null] {
  return result instanceof FailedTransactionMetadata ? [result.meta(), errorOf(result.err())] : [result, null]
}

/** As the RPC writes it: a name, if the transaction cannot be in a block. */
function errorOf(error: ReturnType<Failed['err']>): TransactionError {
  if (typeof error === 'number') return transactionErrors[error] ?? String(error)
  if (error instanceof litesvm.TransactionErrorInsufficientFundsForRent)
    return {InsufficientFundsForRent: {account_index: error.accountIndex}}
  if (error instanceof litesvm.TransactionErrorDuplicateInstruction) return {DuplicateInstruction: error.index}
  if (!(error instanceof litesvm.TransactionErrorInstructionError)) return {ProgramExecutionTemporarilyRestricted: {}}
  const why = error.err()
  if (typeof why === 'number') return {InstructionError: [error.index, instructionErrors[why]]}
  return {InstructionError: [error.index, 'code' in why ? {Custom: why.code} : {BorshIoError: why.msg}]}
}
