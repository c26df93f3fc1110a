// The payout code of EVM chains.
export {open} from './chain.ts'
export {beginWithdrawal} from './withdraw.ts'
