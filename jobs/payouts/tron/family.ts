// The family of Tron in payouts.
export {open} from './chain.ts'
export {asksBeforeWithdrawal, beginWithdrawal} from './withdraw.ts'
