// The family of Tron in payouts.
export {beginWithdrawal, open} from './chain.ts'
export {beginStaking, recountStake} from './stake.ts'
