// USDT on Tron: what of a contract's logs is a payment, what custody signs, and what energy may burn.
import type {Mutation} from '../mutation.ts'

const plan = 'custody/tron/plan.ts'
const ofPlan = ['custody/tron/plan.test.ts']
const fees = 'jobs/payouts/tron/fees.ts'
const ofFees = ['jobs/payouts/tron/fees.test.ts']
const logs = 'chains/tron/token-transfers.ts'
const ofLogs = ['indexers/tron/read-block.test.ts']
const payouts = 'jobs/payouts/tron/tokens.ts'
const ofPayouts = ['test/faults/tron-tokens.test.ts']

export const tronTokens: Mutation[] = [
  {
    rule: 'Custody signs only for tokens whose contract it knows',
    file: plan,
    from: 'if (contract === undefined && token !== chain.assets[0].token)',
    to: 'if (false)',
    tests: ofPlan,
  },
  {
    rule: 'A transfer of a token has a limit for its energy, which the wire does not change',
    file: plan,
    from: 'feeLimit !== undefined && feeLimit > 0n && feeLimit <= largestAmount',
    to: 'feeLimit !== undefined',
    tests: ofPlan,
  },
  {
    rule: 'The bytes of a transfer count in what it may cost',
    file: plan,
    from: 'call.feeLimit + mostTokenBytesFee(settings)',
    to: 'call.feeLimit',
    tests: ofPlan,
  },
  {
    rule: 'A payment of a token costs no more than TOKEN_PAYMENT_FEE',
    file: plan,
    from: 'if (!isSweep && maxFee > settings.tokenPaymentFee)',
    to: 'if (false)',
    tests: ofPlan,
  },
  {
    rule: 'A sweep of a token costs no more than TOKEN_SWEEP_FEE',
    file: plan,
    from: 'if (sweep.call) checkTokenSweepFee(settings, sweep)',
    to: 'if (sweep.call) return',
    tests: ofPlan,
  },
  {
    rule: 'A first sweep moves what is worth one, or all that counts',
    file: plan,
    from: `if (call && kind === 'sweep' && !before.length)`,
    to: 'if (false)',
    tests: ofPlan,
  },
  {
    rule: 'The limit for the energy is in what is signed',
    file: 'custody/tron/sign.ts',
    from: '{...frame, feeLimit}',
    to: 'frame',
    tests: ['custody/tron/sign.test.ts'],
  },
  {
    rule: 'A limit leaves room for a contract that costs more by then',
    file: fees,
    from: 'const roomPercent = 25n',
    to: 'const roomPercent = 0n',
    tests: ofFees,
  },
  {
    rule: 'The limit of a payment covers a new holder',
    file: fees,
    from: 'const newHolder = 2n',
    to: 'const newHolder = 1n',
    tests: ofFees,
  },
  {
    rule: 'No payment is begun whose limit the settings do not allow',
    file: fees,
    from: 'if (atLeast > most) return undefined',
    to: '',
    tests: ofFees,
  },
  {
    rule: 'A log of a token that is one of a kind (EIP-721) is no payment',
    file: logs,
    from: 'others.length || ',
    to: '',
    tests: ofLogs,
  },
  {
    rule: 'Only the event Transfer is a payment',
    file: logs,
    from: ' || hex(topic) !== transferTopic',
    to: '',
    tests: ofLogs,
  },
  {
    rule: 'Logs are numbered apart from what contracts pay inside',
    file: 'indexers/tron/read-block.ts',
    from: 'outputIndex: logOffset + n',
    to: 'outputIndex: 1 + n',
    tests: ofLogs,
  },
  {
    rule: 'A token is known by its contract, whatever it calls itself',
    file: 'indexers/tron/read-block.ts',
    from: 'token: tokens.get(contract) ?? contract',
    to: `token: 'USDT'`,
    tests: ofLogs,
  },
  {
    rule: 'An address is blocked that the solidified block refuses, too',
    file: payouts,
    from: 'if (failure?.isSure) await blockAddress(',
    to: 'if (false) await blockAddress(',
    tests: ofPayouts,
  },
  {
    rule: 'What expired in no block is sent again at once',
    function: 'app.sweep_failures',
    from: `f.outcome <> 'expired' as costs`,
    to: 'true as costs',
    tests: ['db/failed-sweeps.test.ts', 'test/faults/tron-expiry.test.ts'],
  },
  {
    rule: 'A payment that expired, and whose recipient refuses the next one, ends',
    file: 'jobs/payouts/accounts/expiring-attempts.ts',
    from: `if (newest && (kind === 'payout' || kind === 'withdrawal')) {`,
    to: 'if (false) {',
    tests: ['test/faults/tron-expiry.test.ts'],
  },
]
