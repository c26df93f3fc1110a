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
const wroteWrongRows =
  'an alarm: something wrote wrong rows, or somebody else asks custody. `sluice audit`, `select * from custody.refusal order by id desc`'

export const reasons = {
  // --- what an operator decides ---
  not_whitelisted: {
    isRefusal: true,
    ends: 'by a person',
    merchant: 'address_not_whitelisted',
    fails: 'address_not_whitelisted',
    alarm: 'never',
    why: 'the destination is not on the whitelist, not active yet, removed, an address of this service, or not of this network',
    do: 'check the address with the merchant, then `sluice whitelist add`. A swept payout whose payment has a nonce gives it back after 30 s, so that others can be paid, and keeps waiting',
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
    do: 'raise the limit and restart, or wait for the next day (UTC). A payment that has a nonce already holds up what follows: `payout cancel` uses the nonce up',
  },
  account_rent_limit: {
    isRefusal: true,
    ends: 'by itself',
    merchant: 'limit_reached',
    alarm: 'never',
    why: '`SOL_DAILY_ACCOUNT_RENT`: making token accounts for recipients of this merchant may have cost that much today (UTC)',
    do: 'raise the limit and restart, or wait for the next day (UTC), or until payments of today that made none are final. A recipient who has an account waits, too: each payment counts as if it made one',
  },
  fee_budget_reached: {
    isRefusal: true,
    liesWith: 'chain',
    ends: 'by itself',
    isSlow: true,
    merchant: 'fee_budget_reached',
    why: '`*_FEE_BUDGET`: the transactions signed today may already cost that much',
    do: '`sluice custody budget`. If you expect so many payouts, or such fees, `--raise` it for today and raise the setting. Otherwise an attacker may be asking custody to sign: docs/custody.md',
  },
  // --- the chain ---
  chain_halted: {
    isRefusal: true,
    liesWith: 'chain',
    ends: 'by itself',
    merchant: 'chain_halted',
    why: 'an incident of the chain is open',
    do: '`sluice incident list` says the way out. Nothing leaves a chain that is in doubt, and custody signs nothing there. For a broadcast payment that must not wait: `payout replace`, `payout cancel`',
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
    why: "on Tron and Solana, the indexer read no block for too long, or the newest one's time is not the clock's: custody cannot know how long a new signature would be valid. On Solana also: the indexer is more than 25 blocks behind the node, so what it signs would expire too soon",
    do: 'bring the node back, or wait until the indexer has caught up; `sluice status`',
  },
  fee_above_cap: {
    isRefusal: true,
    liesWith: 'chain',
    ends: 'by itself',
    merchant: 'fee_too_high',
    alarm: 'never',
    why: 'the chain asks for more than `*_MAX_FEE_GWEI`, or, for sweeping a token, more than `*_TOKEN_SWEEP_FEE`, or for a payment, whose recipient may be a contract, more than `*_MAX_PAYMENT_FEE`; than `BTC_MAX_FEE_RATE`; on Tron, than `TRON_MAX_SWEEP_FEE` or `TRON_MAX_PAYMENT_FEE`, or for a token, than `TRON_TOKEN_SWEEP_FEE` or `TRON_TOKEN_PAYMENT_FEE`; on Solana, than `SOL_MAX_PRIORITY_FEE`',
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
    why: 'custody signed something else than was asked, as a second library reads it; it was not stored, and no node got it',
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
    why: 'an earlier transaction of the same address is not signed yet, and waits for nothing',
    do: 'nothing: if the earlier one waits, its reason is shown instead',
  },
  payment_locked: {
    isRefusal: true,
    liesWith: 'others',
    ends: 'by itself',
    why: 'the payment is being changed at this moment, and custody waits for that half a second at most',
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
    why: 'on Bitcoin, the treasury has enough, but part of it is newly mined coins, which can be spent only 100 blocks after their own block',
    do: "nothing: the detail names the block. To go on at once, send other coins to the treasury's address",
  },
  treasury_below_rent: {
    liesWith: 'others',
    ends: 'by itself',
    merchant: 'treasury_below_rent',
    why: 'on Solana, the treasury has enough for the payment, but would be left with less than an account must hold (rent)',
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
    why: 'the treasury cannot pay it yet, and its sweeps are under way; the detail says which, and since when',
    do: 'nothing; `payout show` lists them',
  },
  gas_under_way: {
    ends: 'by itself',
    why: 'an address sweeps a token itself, and has too little gas for its transaction; the treasury is sending it more',
    do: 'nothing; `payout show` lists what is under way',
  },
  gas_too_dear: {
    isRefusal: true,
    ends: 'never',
    why: 'a sweep of a token and the gas that its address would be sent may cost more than `*_TOKEN_SWEEP_FEE`',
    do: 'nothing: the gas is not sent; wait for lower fees, or raise the setting',
  },
  gas_missing: {
    isRefusal: true,
    ends: 'by itself',
    why: "a sweep may cost more than the gas that the treasury sent the address and that is left, by custody's journal and the blocks",
    do: 'nothing: the treasury sends more. If it stays, `sluice audit`',
  },
  block_unknown: {
    ends: 'by itself',
    why: 'the transaction that custody signed names a block that is not here any more, or not final: after a fork, or a rewind',
    do: 'nothing: it waits until the block is back, or until the transaction has expired, and another one is signed',
  },
  energy_under_way: {
    ends: 'by itself',
    why: 'the treasury lends an address energy for the sweep of a token, or takes it back',
    do: 'nothing; `payout show` lists what is under way',
  },
  energy_in_use: {
    isRefusal: true,
    ends: 'by itself',
    why: 'energy that is lent to an address is not taken back while its sweep may still be mined, and no address is lent to twice at once',
    do: 'nothing. If it stays, `sluice audit`',
  },
  energy_short: {
    ends: 'by itself',
    merchant: 'sweeps_failed',
    why: "too little of the treasury's stake is free for a sweep, which may not burn its energy: `*_SWEEP_ENERGY` is delegated, or burning costs more than `*_TOKEN_SWEEP_FEE`",
    do: 'energy that was used is back within 24 hours. Stake more, or allow burning by the setting that the detail names',
  },
  stake_lent: {
    isRefusal: true,
    ends: 'never',
    why: "more of the treasury's stake would be lent to addresses at once than `*_MAX_DELEGATED`",
    do: 'nothing: it is not lent, and the sweep goes another way; or raise the setting',
  },
  sweeps_failed: {
    ends: 'by itself',
    merchant: 'sweeps_failed',
    why: 'the treasury cannot pay it yet, and some of its sweeps failed; the detail says how many, why the newest did, and when they are tried again: at once, after a minute, then after eight times as long each time, at most a day',
    do: '`payout show` says which, and why each failed; `sluice status` lists all that could not be swept. Money for the treasury helps only if the detail names the treasury',
  },
  token_refused: {
    ends: 'by itself',
    merchant: 'token_stopped',
    why: "the contract of the token refuses the treasury's own sweep of nothing, too: it is paused, or the treasury is frozen. On Solana: the treasury's account is frozen, or the mint is not what it was. No sweep is begun, and no address is blocked",
    do: 'ask the issuer of the token; the payout goes on by itself',
  },
  token_takes_fee: {
    ends: 'by itself',
    merchant: 'token_stopped',
    why: 'the contract of the token keeps a part of what is transferred (of a payout, less than its net would arrive), or its events do not say what it moves. Nothing of it is swept or paid',
    do: 'ask the issuer of the token; it goes on by itself, or once its incident is resolved',
  },
  sweep_too_small: {
    isRefusal: true,
    ends: 'never',
    why: 'a sweep of less than `*_SWEEP_MIN` does not move all that counts on its address',
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
    do: 'nothing: the payout fails with this code at once, its deposits there are held back, and another payout pays the rest',
  },
  // --- its transactions ---
  fee_too_low: {
    isRefusal: true,
    ends: 'by itself',
    alarm: 'never',
    why: 'a replacement must offer more than the last attempt: an eighth on EVM chains; and any transaction must have at least the gas that its bytes need',
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
    why: 'its inputs are not known, or not final: after a restore the indexer has not reached them yet, or the payment that a CPFP child is for was replaced',
    do: 'nothing; for a CPFP child see "The treasury" in docs/operations.md',
  },
  would_revert: {
    ends: 'never',
    merchant: 'transaction_would_fail',
    why: 'the node says that the transaction would fail. On EVM chains: the token is paused, say. On Solana, of a sweep: the treasury cannot pay for it, and would be left with less than the rent',
    do: '`payout show`; a payout that has no payment yet waits',
  },
  unproven_expiry: {
    ends: 'by itself',
    merchant: 'unproven_expiry',
    why: 'a transaction has expired, and it is not proven that no block holds it; the detail says why',
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
    do: 'an incident of that name is open',
  },
  transaction_expired: {
    isRefusal: true,
    ends: 'never',
    fails: 'transaction_expired',
    why: 'too many transactions of this payment expired in a row',
    do: 'nothing: the payout fails with this code as soon as each of them is proven to have expired',
  },
  // --- its recipient ---
  destination_not_payable: {
    isRefusal: true,
    ends: 'never',
    merchant: 'destination_not_payable',
    fails: 'destination_not_payable',
    why: 'nobody can pay the recipient: on EVM chains it refuses the payment, and would not refuse the same from the treasury to itself; on Tron, for TRX, it is a contract, on Solana it belongs to a program; or what is paid there is lost. The node is asked before anything is swept, and again before anything is signed',
    do: 'the payout fails with this code after 30 s: the merchant needs another address',
  },
  below_rent_exempt: {
    ends: 'never',
    merchant: 'below_rent_exempt',
    fails: 'below_rent_exempt',
    why: 'on Solana, the recipient never had coins, and the payout is less than an account must hold (rent). Nothing was signed',
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
    why: 'more would leave than arrived for this merchant, as the chain has it now: a final deposit that vanished does not count, also if it was `kept`',
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
    why: 'it was begun or signed with another nonce, first input, destination or amount; an output is missing that was signed before, or is not reserved for it',
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
