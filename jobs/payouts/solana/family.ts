// The family of Solana in payouts.
export {open} from './chain.ts'
export {asksBeforeWithdrawal, beginWithdrawal} from './withdraw.ts'
