// The family of Solana in payouts.
export {open} from './chain.ts'
export {beginWithdrawal} from './withdraw.ts'
