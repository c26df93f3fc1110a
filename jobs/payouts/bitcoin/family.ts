// The payout code of Bitcoin.

export {open} from './chain.ts'
export {beginCpfp} from './cpfp.ts'
export {beginWithdrawal} from './withdraw.ts'
