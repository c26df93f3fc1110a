// The family of Tron in payouts.
export {open} from './chain.ts'
export {beginWithdrawal} from './withdraw.ts'
