// The payout code of EVM chains.
export {beginWithdrawal, open} from './chain.ts'
