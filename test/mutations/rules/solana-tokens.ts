// Tokens on Solana: whose a token account is, which mints are fine, what custody signs, and who can be paid.
import type {Mutation} from '../mutation.ts'

const read = 'indexers/solana/read-block.ts'
const ofRead = ['indexers/solana/read-block.test.ts']
const mints = 'chains/solana/tokens.ts'
const ofMints = ['chains/solana/tokens.test.ts']
const message = 'chains/solana/message.ts'
const ofMessage = ['chains/solana/message.test.ts']
const plan = 'custody/solana/plan.ts'
const ofPlan = ['custody/solana/plan.test.ts']
const reader = 'jobs/payouts/solana/second-reader.ts'
const ofReader = ['custody/second-reader.test.ts']
const payouts = 'jobs/payouts/solana/tokens.ts'
const ofPayouts = ['test/faults/solana-tokens.test.ts']

export const solanaTokens: Mutation[] = [
  {
    rule: 'The treasury has only what is on its associated accounts',
    file: 'indexers/look-up.ts',
    from: 'to.isTreasury ? candidate.isOutOfReach?.()',
    to: 'to.isTreasury ? false',
    tests: ['indexers/match.test.ts'],
  },
  {
    rule: 'An account that gets another owner brings all that it holds',
    file: read,
    from: ' && each.owner === owner)?.amount',
    to: ')?.amount',
    tests: ofRead,
  },
  {
    rule: 'A node that leaves out what tokens did is not believed',
    file: read,
    from: 'if (keys.some(key => key === tokenProgram || key === token2022Program))',
    to: 'if (false)',
    tests: ofRead,
  },
  {
    rule: 'A node that leaves out who got a token is not believed',
    file: read,
    from: 'if (owner === undefined)\n      throw new RetryableError(',
    to: 'if (owner === undefined) return []\n    if (false)\n      throw new RetryableError(',
    tests: ofRead,
  },
  {
    rule: 'The rent of accounts that are made is part of the fee',
    file: read,
    from: 'fee: fee + rentIn(transaction)',
    to: 'fee',
    tests: ofRead,
  },
  {
    rule: 'What an account of wrapped SOL holds is no rent',
    file: read,
    from: '!nativeMints.includes(mint) && ',
    to: '',
    tests: ofRead,
  },
  {
    rule: 'An extension that is not known is refused',
    file: mints,
    from: 'const why = (unlessAccepted[extension] ?? unknown)(data)',
    to: 'const why = (unlessAccepted[extension] ?? fine)(data)',
    tests: ofMints,
  },
  {
    rule: 'A fee on transfers cannot be accepted',
    file: mints,
    from: 'const forever = never[extension]?.(data)',
    to: 'const forever = undefined as string | undefined',
    tests: ofMints,
  },
  {
    rule: 'A fee that begins later counts',
    file: mints,
    from: ' || data.readUInt16LE(106) > 0',
    to: '',
    tests: ofMints,
  },
  {
    rule: 'An address that no key signs for is looked for as the runtime does',
    file: mints,
    from: 'if (!isOnCurve(found)) return addressOf(found)',
    to: 'return addressOf(found)',
    tests: ofMints,
  },
  {
    rule: 'The supply of a mint does not change it',
    file: mints,
    from: 'Buffer.from(data).fill(0, 36, 44)',
    to: 'Buffer.from(data)',
    tests: ofMints,
  },
  {
    rule: 'An account that is not in use is none',
    file: mints,
    from: 'if (state !== 1 && state !== 2) return undefined',
    to: 'if (false) return undefined',
    tests: ofMints,
  },
  {
    rule: 'The account of who signs for a token is not written',
    file: message,
    from: 'const readSigners = payment.token ? signers.length - 1 : 0',
    to: 'const readSigners = 0',
    tests: ofMessage,
  },
  {
    rule: 'A token goes to the associated account of its recipient',
    file: plan,
    from: 'fromAccount, recipient: destination,',
    to: 'fromAccount, recipient: account ?? destination,',
    tests: ofPlan,
  },
  {
    rule: 'Accounts for the recipients of a merchant have a limit',
    file: plan,
    from: 'if (used + rent > most)',
    to: 'if (false)',
    tests: ofPlan,
  },
  {
    rule: 'What lapsed made no account',
    file: plan,
    from: 'where not exists (select from chain.lapse l where l.chain = $1 and l.txid = r.txid)`,',
    to: 'where true`,',
    tests: ofPlan,
  },
  {
    rule: 'A payment fails if somebody else owns the account of its recipient by now',
    file: plan,
    from: "isMade: kind !== 'sweep' || isNewAccount",
    to: 'isMade: isNewAccount',
    tests: ofPlan,
  },
  {
    rule: 'A final payment counts what it paid for an account',
    file: plan,
    from: 'select greatest(i.fee - r.rest, 0) from',
    to: 'select r.rent from',
    tests: ofPlan,
  },
  {
    rule: 'The minimum of a sweep holds for the associated account',
    file: plan,
    from: "kind === 'sweep' && !before.length && !isOther",
    to: 'false',
    tests: ofPlan,
  },
  {
    rule: 'The rent of a token account is no payment',
    file: read,
    from: 'if (amount <= 0n || tokensAfter?.some(({index}) => index === outputIndex)) return []',
    to: 'if (amount <= 0n) return []',
    tests: ofRead,
  },
  {
    rule: 'The second reader reads the account that is made',
    file: reader,
    from: `...(made && {'account made': made}),`,
    to: '',
    tests: ofReader,
  },
  {
    rule: 'Nothing is swept from one account that is on several',
    file: payouts,
    from: 'amount: least(holds, BigInt(amount)), maxFee, holds',
    to: 'amount: BigInt(amount), maxFee, holds: BigInt(amount)',
    tests: ofPayouts,
  },
  {
    rule: 'An account that belongs to somebody else by now is not paid',
    file: payouts,
    from: 'if (held.owner !== recipient) return',
    to: 'if (false) return',
    tests: ofPayouts,
  },
  {
    rule: 'No account is made that costs more than is allowed',
    file: payouts,
    from: 'if (rent <= settings.maxAccountRent) return undefined',
    to: 'return undefined',
    tests: ofPayouts,
  },
]
