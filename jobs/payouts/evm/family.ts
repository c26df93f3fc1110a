// The payout code of EVM chains.
export {open} from './chain.ts'
export {asksBeforeWithdrawal, beginWithdrawal} from './withdraw.ts'
