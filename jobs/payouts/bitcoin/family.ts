// Bitcoin, as payouts need it.

export {open} from './chain.ts'
export {beginCpfp} from './cpfp.ts'
export {asksBeforeWithdrawal, beginWithdrawal} from './withdraw.ts'
