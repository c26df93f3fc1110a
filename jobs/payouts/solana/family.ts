export {beginWithdrawal, open} from './chain.ts'
