// EVM chains, as payouts need them.
export {open} from './chain.ts'
export {asksBeforeWithdrawal, beginWithdrawal} from './withdraw.ts'
