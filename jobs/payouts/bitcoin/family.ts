// Bitcoin, as payouts need it.
export {beginBump} from './bump.ts'
export {open} from './chain.ts'
export {asksBeforeWithdrawal, beginWithdrawal} from './withdraw.ts'
