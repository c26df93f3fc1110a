// The family of Tron in payouts.
export {beginWithdrawal, open} from './chain.ts'
export {beginStaking} from './energy.ts'
