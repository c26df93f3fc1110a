// Why a payment waits, is refused, or fails: one entry for each reason, and nothing else knows what a reason means.
// From here come the types of reasons in the code, the table app.reason (db/migrate/reasons.ts writes it), `waiting`
// and `error` of the API, what `payout show` says, the tables in docs/, and the lists in the alarms (npm run snapshot
// writes these; a test compares them).

/**
 * What a merchant reads while a payout waits: the code, and its message. About the treasury it says that it is short,
 * never by how much.
 */
export const waitingCodes = {
  address_not_whitelisted: 'the operator has to put the payout address on the whitelist',
  limit_reached: 'it would exceed a limit for payouts',
  fee_budget_reached:
    "the budget for today's network fees is used up; the payout continues tomorrow (UTC) at the latest",
  insufficient_treasury_funds: 'the treasury is short of funds',
  token_stopped: 'transfers of the token are refused at the moment, or do not arrive whole',
  sweeps_failed: 'money on some of its addresses could not be moved; it is tried again',
  treasury_immature: 'newly mined coins of the treasury cannot be spent yet',
  treasury_below_rent: 'the treasury would hold less than an account of the chain must',
  chain_halted: 'payouts of this chain are stopped until the operator has checked it',
  chain_unreachable: 'the chain cannot be reached at the moment',
  chain_lagging: 'the service has not read the newest blocks of the chain yet',
  fee_too_high: 'network fees are higher than the most that is paid',
  transaction_would_fail: 'the chain would not carry its transaction out at the moment; it is tried again',
  destination_not_payable: 'nobody can pay the payout address',
  below_rent_exempt: 'the payout address has no account yet, and it is less than an account must hold',
  custody_rejected: 'it was refused for safety, and the operator has to look at it',
  service_error: 'something failed in the service; it is tried again',
  cancelling: 'it is being cancelled, and its transaction may still be mined',
  custody_unavailable: 'it cannot be signed at the moment',
  unresolved_transaction: 'an earlier transaction has to be resolved first',
  unproven_expiry: 'its transaction has expired, and it is not certain yet that no block holds it',
  payment_contested: 'two transactions of it may still be mined; it continues once one is final, or can never be',
} as const
export type WaitingCode = keyof typeof waitingCodes

/** Why a payout failed: `error.code` of the API, and what happened. */
export const failureCodes = {
  address_not_whitelisted: 'the address was not put on the whitelist in time',
  custody_rejected:
    'a rule of the operator refused the payout, such as a limit for one payout, until its time was over',
  insufficient_treasury_funds: 'the treasury was short of funds until its time was over',
  transaction_reverted: 'the transaction was mined and moved nothing',
  transaction_expired:
    'on a chain whose transactions expire, several in a row expired before a block took them; nothing was paid',
  broadcast_rejected: 'the transaction can never be mined',
  below_rent_exempt:
    'on Solana, the address never had coins, and an account takes no less than the rent (up to 0.00089088 SOL); the net is less. Send some coins there first, or wait for a larger balance',
  destination_not_payable:
    'nobody can pay the address: on Ethereum and Polygon it refuses what it is paid, because its code takes no coins, or the issuer of the token blocked it; on Tron, for TRX, it is a contract; on Solana it belongs to a program. Nothing was sent. Register another one',
  deposit_reorged: 'one of its deposits was lost in a reorganisation that went deeper than finality',
  deposits_blocked:
    'the chain does not let some of its deposits leave their addresses: the issuer of the token may have frozen one. They are held back, and another payout pays the rest',
  cancelled: 'you, or the operator, cancelled it',
  timed_out: 'it could not be carried out in time; `message` says what it waited for',
} as const
export type FailureCode = keyof typeof failureCodes

export interface Reason {
  /** Custody refuses to sign for it. Every other one is noted by the worker, or by SQL. */
  isRefusal?: true
  /**
   * What is in the way: the chain as a whole, which may be told to everybody; what others do, or the treasury has; or
   * (by default) the payment itself.
   */
  liesWith?: 'chain' | 'others'
  /**
   * How it ends. `by itself`: it is no fault of the payment, which waits. `by a person`: a payout waits for
   * PAYOUT_TIMEOUT_MS. `never`: a payout whose payment has begun fails after 30 s; any other transaction is given up,
   * if nothing was signed for it.
   */
  ends: 'by itself' | 'by a person' | 'never'
  /** Its end takes long: it is asked again every five minutes. */
  isSlow?: true
  /**
   * What the merchant of a payout reads; absent: nothing, because it passes within seconds, or is of no payout that
   * waits.
   */
  merchant?: WaitingCode
  /** With what a payout fails that waited for it too long; absent: timed_out. */
  fails?: FailureCode
  /**
   * When it is no reason to wake somebody up after an hour: `never`. When it is one as soon as custody refuses for it:
   * `at once`.
   */
  alarm?: 'never' | 'at once'
  /** It is of the returns of unattributed value alone (docs/operations/unattributed.md). */
  isOfReturns?: true
  /** For operators: what is in the way, and what to do. In Markdown, without links. */
  why: string
  do: string
}

const contradiction = {
  isRefusal: true,
  ends: 'never',
  merchant: 'custody_rejected',
  fails: 'custody_rejected',
} as const
/** The page has it once, above its table. */
export const wroteWrongRows =
  'an alarm: something wrote wrong rows, or somebody else asks custody. `sluice audit`, `select * from custody.refusal order by id desc`'

export const reasons = {
  // --- what an operator decides ---
  not_whitelisted: {
    isRefusal: true,
    ends: 'by a person',
    merchant: 'address_not_whitelisted',
    fails: 'address_not_whitelisted',
    alarm: 'never',
    why: 'the destination is not on the whitelist or not active yet, or an address of this service or of another network',
    do: 'check the address with the merchant, then `sluice whitelist add`. A swept payout gives its nonce back after 30 s, and keeps waiting',
  },
  above_limit: {
    isRefusal: true,
    ends: 'by a person',
    merchant: 'limit_reached',
    fails: 'custody_rejected',
    alarm: 'never',
    why: '`*_PAYOUT_LIMIT`',
    do: 'raise the limit and restart',
  },
  daily_limit: {
    isRefusal: true,
    ends: 'by itself',
    isSlow: true,
    merchant: 'limit_reached',
    alarm: 'never',
    why: '`*_DAILY_LIMIT` (UTC days)',
    do: 'raise the limit and restart, or wait for the next day (UTC). A payment that has a nonce holds up what follows: `payout cancel` uses it up',
  },
  account_rent_limit: {
    isRefusal: true,
    ends: 'by itself',
    merchant: 'limit_reached',
    alarm: 'never',
    why: '`SOL_DAILY_ACCOUNT_RENT`: token accounts for recipients of this merchant may have cost that much today (UTC)',
    do: 'raise the limit and restart, or wait for the next day (UTC), or until payments that made no account are final: until then each counts as if it made one',
  },
  fee_budget_reached: {
    isRefusal: true,
    liesWith: 'chain',
    ends: 'by itself',
    isSlow: true,
    merchant: 'fee_budget_reached',
    why: '`*_FEE_BUDGET`: the transactions signed today may already cost that much',
    do: '`sluice custody budget`. If you expect such fees, `--raise` it for today and raise the setting. Otherwise an attacker may be asking custody to sign: docs/custody.md',
  },
  // --- the chain ---
  chain_halted: {
    isRefusal: true,
    liesWith: 'chain',
    ends: 'by itself',
    merchant: 'chain_halted',
    why: 'an incident of the chain is open',
    do: '`sluice incident list` says the way out. For a broadcast payment that must not wait: `payout replace`, `payout cancel`',
  },
  no_node: {
    liesWith: 'chain',
    ends: 'by itself',
    merchant: 'chain_unreachable',
    why: 'the jobs worker has no node of the chain (`*_RPC_URL`)',
    do: 'name one, and restart',
  },
  node_unreachable: {
    liesWith: 'chain',
    ends: 'by itself',
    merchant: 'chain_unreachable',
    why: 'the jobs worker cannot reach the node of the chain; the detail names its setting',
    do: 'bring it back, or name another. What was broadcast is broadcast again',
  },
  head_stale: {
    isRefusal: true,
    liesWith: 'chain',
    ends: 'by itself',
    merchant: 'chain_lagging',
    why: "on Tron and Solana, the indexer read no block for too long, or the newest one's time is not the clock's; on Solana also: it is more than 25 blocks behind the node",
    do: 'bring the node back, or wait until the indexer has caught up; `sluice status`',
  },
  fee_above_cap: {
    isRefusal: true,
    liesWith: 'chain',
    ends: 'by itself',
    merchant: 'fee_too_high',
    alarm: 'never',
    why: 'the chain asks for more than `*_MAX_FEE_GWEI`, `BTC_MAX_FEE_RATE`, `TRON_MAX_SWEEP_FEE` or `SOL_MAX_PRIORITY_FEE`; for the sweep of a token, `*_TOKEN_SWEEP_FEE`; for a payment, `*_MAX_PAYMENT_FEE` or `TRON_TOKEN_PAYMENT_FEE`',
    do: 'wait, or raise it',
  },
  // --- custody and its journal ---
  custody_unreachable: {
    liesWith: 'chain',
    ends: 'by itself',
    merchant: 'custody_unavailable',
    why: 'custody does not run, or cannot be reached',
    do: 'read its log',
  },
  signed_otherwise: {
    liesWith: 'chain',
    ends: 'by itself',
    merchant: 'custody_rejected',
    alarm: 'never', // the incident has one
    why: 'custody signed something else than was asked; no node got it',
    do: 'an alarm: see the incident of that name',
  },
  copy_unproven: {
    isRefusal: true,
    liesWith: 'chain',
    ends: 'by itself',
    isSlow: true,
    merchant: 'chain_halted',
    why: "custody's journal may lack signatures: what they paid would be paid again; the detail says until when it waits",
    do: 'nothing, except for unknown transactions: docs/operations/backup.md',
  },
  journal_ahead: {
    isRefusal: true,
    liesWith: 'chain',
    ends: 'by itself',
    merchant: 'chain_halted',
    alarm: 'at once',
    why: 'the database is an older copy: the journal has more',
    do: '`sluice custody reconcile`',
  },
  journal_changed: {
    isRefusal: true,
    liesWith: 'chain',
    ends: 'by itself',
    merchant: 'chain_halted',
    alarm: 'at once',
    why: "rows of custody's journal in the database differ from its file",
    do: 'an alarm: see the incident of that name',
  },
  // --- what others do, or the treasury has ---
  nonce_too_high: {
    isRefusal: true,
    liesWith: 'others',
    ends: 'by itself',
    merchant: 'unresolved_transaction',
    alarm: 'never',
    why: 'an earlier transaction of the same address is not signed yet',
    do: 'nothing: if the earlier one waits, its reason is shown instead',
  },
  payment_locked: {
    isRefusal: true,
    liesWith: 'others',
    ends: 'by itself',
    why: 'the payment is being changed at this moment',
    do: 'nothing: it is asked again in seconds. If it stays, look for a transaction that stays open in `pg_stat_activity`',
  },
  insufficient_treasury_funds: {
    liesWith: 'others',
    ends: 'by itself',
    merchant: 'insufficient_treasury_funds',
    fails: 'insufficient_treasury_funds',
    why: "the treasury lacks the token, or coins for network fees (other merchants' money does not count)",
    do: "send what the detail names to the treasury's address; the top-up counts once it is final",
  },
  treasury_immature: {
    liesWith: 'others',
    ends: 'by itself',
    merchant: 'treasury_immature',
    alarm: 'never',
    why: 'on Bitcoin, part of the treasury is newly mined coins, which can be spent only after 100 blocks',
    do: "nothing: the detail names the block. To go on at once, send other coins to the treasury's address",
  },
  treasury_below_rent: {
    liesWith: 'others',
    ends: 'by itself',
    merchant: 'treasury_below_rent',
    why: 'on Solana, the payment would leave the treasury less than an account must hold (rent)',
    do: 'send the treasury some SOL',
  },
  // --- sweeps ---
  allocation: {
    ends: 'by itself',
    alarm: 'never',
    why: 'its deposits, hundreds of thousands of them, are still being allocated',
    do: 'nothing; it takes seconds',
  },
  sweeps: {
    ends: 'by itself',
    alarm: 'never',
    why: 'its sweeps are under way; the detail says which, and since when',
    do: 'nothing; `payout show` lists them',
  },
  gas_under_way: {
    ends: 'by itself',
    why: 'an address has too little gas for its sweep; the treasury is sending it more',
    do: 'nothing; `payout show` lists what is under way',
  },
  gas_too_dear: {
    isRefusal: true,
    ends: 'never',
    why: 'the sweep of a token, with the gas for it, may cost more than `*_TOKEN_SWEEP_FEE`',
    do: 'wait for lower fees, or raise the setting',
  },
  gas_missing: {
    isRefusal: true,
    ends: 'by itself',
    why: 'a sweep may cost more than what is left of the gas that the treasury sent',
    do: 'nothing: the treasury sends more. If it stays, `sluice audit`',
  },
  block_unknown: {
    ends: 'by itself',
    why: 'the signed transaction names a block that a fork or a rewind took away',
    do: 'nothing: the block comes back, or the transaction expires and another one is signed',
  },
  energy_under_way: {
    ends: 'by itself',
    why: 'the treasury lends an address energy for a sweep, or takes it back',
    do: 'nothing; `payout show` lists what is under way',
  },
  energy_in_use: {
    isRefusal: true,
    ends: 'by itself',
    why: 'energy is lent to the address while its sweep may still be mined',
    do: 'nothing. If it stays, `sluice audit`',
  },
  energy_short: {
    ends: 'by itself',
    merchant: 'sweeps_failed',
    why: 'too little of the stake is free for a sweep that may not burn: `*_SWEEP_ENERGY` is delegated, or burning costs more than `*_TOKEN_SWEEP_FEE`',
    do: 'energy that was used is back within 24 hours. Stake more, or allow burning by the setting that the detail names',
  },
  stake_lent: {
    isRefusal: true,
    ends: 'never',
    why: 'more of the stake would be lent at once than `*_MAX_DELEGATED`',
    do: 'nothing: the sweep goes another way; or raise the setting',
  },
  sweeps_failed: {
    ends: 'by itself',
    merchant: 'sweeps_failed',
    why: 'some of its sweeps failed; the detail says how many, why, and when they are tried again: at once, after a minute, then after eight times as long each time, at most a day',
    do: '`payout show` says which, and why; `sluice status` lists all. Money for the treasury helps only if the detail names the treasury',
  },
  token_refused: {
    ends: 'by itself',
    merchant: 'token_stopped',
    why: 'the token is paused, or the treasury is frozen; on Solana also: the mint is not what it was. No sweep is begun',
    do: 'ask the issuer of the token; the payout goes on by itself',
  },
  token_takes_fee: {
    ends: 'by itself',
    merchant: 'token_stopped',
    why: 'the token keeps a part of what is transferred, or its events do not say what it moves. Nothing of it is swept or paid',
    do: 'ask the issuer of the token; it goes on by itself, or once its incident is resolved',
  },
  sweep_too_small: {
    isRefusal: true,
    ends: 'never',
    why: 'a sweep below `*_SWEEP_MIN` does not move all that counts on its address',
    do: 'nothing: it is given up, and one of all is begun',
  },
  sweep_too_dear: {
    isRefusal: true,
    ends: 'by itself',
    merchant: 'fee_too_high',
    alarm: 'never',
    why: 'the sweep costs more than `*_SWEEP_FEE_PERCENT` of its amount, or more than `*_TOKEN_SWEEP_FEE`',
    do: 'wait for lower fees, or raise the setting',
  },
  fee_above_funds: {
    ends: 'never',
    merchant: 'insufficient_treasury_funds',
    fails: 'insufficient_treasury_funds',
    alarm: 'never',
    why: 'an address holds less than its sweep costs now',
    do: 'wait until fees fall',
  },
  deposits_blocked: {
    ends: 'never',
    fails: 'deposits_blocked',
    why: 'the chain does not let some of its deposits leave their addresses',
    do: 'nothing: the payout fails with this code at once, these deposits are held back, and another payout pays the rest',
  },
  // --- its transactions ---
  fee_too_low: {
    isRefusal: true,
    ends: 'by itself',
    alarm: 'never',
    why: 'a replacement must offer more than the last attempt (on EVM chains an eighth), and enough gas for its bytes',
    do: 'wait until one is mined, or fees fall',
  },
  txid_taken: {
    isRefusal: true,
    ends: 'by itself',
    why: 'the new transaction has the id of an earlier one',
    do: 'nothing: it is asked again, and the next one differs',
  },
  unknown_outputs: {
    ends: 'never',
    merchant: 'unresolved_transaction',
    alarm: 'never',
    why: 'its inputs are not known or not final: the indexer has not reached them after a restore, or the payment of a CPFP child was replaced',
    do: 'nothing; for a CPFP child see "The treasury" in docs/operations.md',
  },
  would_revert: {
    ends: 'never',
    merchant: 'transaction_would_fail',
    why: 'the node says that the transaction would fail: the token is paused, say, or on Solana the treasury cannot pay for a sweep and keep the rent',
    do: 'see what the node said (`payout show`)',
  },
  unproven_expiry: {
    ends: 'by itself',
    merchant: 'unproven_expiry',
    why: 'it is not proven that no block holds an expired transaction; the detail says why',
    do: 'nothing at first; after 10 minutes it is an incident',
  },
  expiry: {
    ends: 'by itself',
    merchant: 'cancelling',
    why: 'it is cancelled, and its transaction may still be mined',
    do: 'nothing: it ends when that has expired, or completes if a block takes it',
  },
  payment_contested: {
    isRefusal: true,
    ends: 'by itself',
    merchant: 'payment_contested',
    why: 'two transactions of the payment may still be mined',
    do: 'see the incident `contested_payment`',
  },
  transaction_expired: {
    isRefusal: true,
    ends: 'never',
    fails: 'transaction_expired',
    why: 'too many transactions of this payment expired in a row',
    do: 'nothing: the payout fails with this code once each is proven to have expired',
  },
  // --- its recipient ---
  destination_not_payable: {
    isRefusal: true,
    ends: 'never',
    merchant: 'destination_not_payable',
    fails: 'destination_not_payable',
    why: 'nobody can pay the recipient, or what is paid there is lost: on EVM chains it refuses the payment; on Tron, for TRX, it is a contract; on Solana it belongs to a program',
    do: 'the payout fails with this code after 30 s: the merchant needs another address',
  },
  below_rent_exempt: {
    ends: 'never',
    merchant: 'below_rent_exempt',
    fails: 'below_rent_exempt',
    why: 'on Solana, the recipient never had coins, and the payout is less than an account must hold (rent)',
    do: 'the payout fails with this code after 30 s; somebody may send coins to the recipient first',
  },
  below_dust: {
    ends: 'never',
    fails: 'broadcast_rejected',
    why: 'on Bitcoin, nodes accept no payment so small',
    do: 'nothing: the payout fails with `broadcast_rejected` at once',
  },
  // --- the database contradicts custody's journal, or the chain ---
  exceeds_received: {
    ...contradiction,
    ends: 'by a person',
    alarm: 'at once',
    why: 'more would leave than arrived for this merchant; a final deposit that vanished does not count, also if it was `kept`',
    do: wroteWrongRows,
  },
  amount_not_net: {
    ...contradiction,
    ends: 'by a person',
    alarm: 'at once',
    why: "the payout's amounts do not add up",
    do: wroteWrongRows,
  },
  settlement_changed: {
    ...contradiction,
    alarm: 'at once',
    why: 'it was begun or signed with another nonce, first input, destination or amount; or an output is missing, or not reserved for it',
    do: wroteWrongRows,
  },
  nonce_taken: {
    ...contradiction,
    alarm: 'at once',
    why: 'the nonce was signed for another purpose; or an output was, and that transaction can still be mined',
    do: wroteWrongRows,
  },
  not_ours: {
    ...contradiction,
    alarm: 'at once',
    why: 'the address is not ours, or of the wrong kind; an output is not final, not ours, or belongs to another merchant',
    do: wroteWrongRows,
  },
  unknown_settlement: {
    ...contradiction,
    alarm: 'at once',
    why: 'there is no such payout, withdrawal, sweep, CPFP child or token',
    do: wroteWrongRows,
  },
  wrong_state: {
    ...contradiction,
    why: 'it is not at this step; it is (or is not) being cancelled; it, or its nonce, is final; an output is spent',
    do: wroteWrongRows,
  },
  dust: {
    ...contradiction,
    why: 'an output, or the change, would be dust',
    do: wroteWrongRows,
  },
  insufficient_inputs: {
    ...contradiction,
    merchant: 'insufficient_treasury_funds',
    why: 'the outputs hold less than the amount and the fee',
    do: wroteWrongRows,
  },
  // --- the service ---
  database_unavailable: {
    ends: 'by itself',
    merchant: 'service_error',
    why: 'the database cannot be reached, or has no free connection',
    do: 'what the detail says (`payout show`)',
  },
  disk_full: {
    ends: 'by itself',
    merchant: 'service_error',
    why: "a disk is full, mostly the database's",
    do: 'what the detail says (`payout show`)',
  },
  database_error: {
    ends: 'by itself',
    merchant: 'service_error',
    why: 'the database failed',
    do: 'what the detail says (`payout show`)',
  },
  error: {ends: 'by itself', merchant: 'service_error', why: 'a bug', do: 'read the log of the jobs worker'},
  // --- returns ---
  not_worth_moving: {
    ends: 'by itself',
    isOfReturns: true,
    why: 'the network asks for more than the settings allow for what would arrive',
    do: 'wait for lower fees, or credit it',
  },
  deposit_not_final: {
    ends: 'by itself',
    isOfReturns: true,
    why: 'a reorganisation deeper than finality removed the deposit, and you resolved its incident as `reorged`',
    do: 'wait: if the deposit comes back, the return continues',
  },
  not_there: {
    ends: 'by itself',
    isOfReturns: true,
    why: 'according to the node, the address holds less than the deposit',
    do: '`sluice audit`: compare the chain with the ledger',
  },
  address_blocked: {
    ends: 'by a person',
    isOfReturns: true,
    why: 'the chain does not let the token leave the address',
    do: '`sluice address list --blocked`',
  },
  given_up: {
    ends: 'never',
    isOfReturns: true,
    why: 'it was begun 20 times',
    do: 'read the log of the jobs worker',
  },
  not_returnable: {
    ends: 'never',
    isOfReturns: true,
    why: 'nothing is returned on this chain',
    do: 'credit it to a merchant',
  },
} satisfies Record<string, Reason>

export type ReasonCode = keyof typeof reasons
export type RefusalCode = {[C in ReasonCode]: (typeof reasons)[C] extends {isRefusal: true} ? C : never}[ReasonCode]

export const refusalCodes = (Object.keys(reasons) as ReasonCode[]).filter(
  (code): code is RefusalCode => 'isRefusal' in reasons[code],
)

/** A newer version may have noted one that this one does not know. */
export const reasonOf = (code: ReasonCode): Reason => reasons[code] ?? reasons.error
