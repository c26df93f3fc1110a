// Transactions that stake TRX for bandwidth or energy, lend what that gives, and take both back. Promises: as
// java-tron's, except that nothing is locked, and that TRX cannot be staked for votes alone.
import type {Message} from '../../chains/tron/protobuf.ts'
import {addressOrNone} from '../../chains/tron/transaction.ts'
import {parameters} from './constants.ts'
import {invalid} from './rejected.ts'
import {dailyOf, lendable, use, usedAt} from './resources.ts'
import {type Account, type Resource, resources, type State} from './state.ts'
import {types} from './transaction-types.ts'

const dayMs = 86_400_000
const trx = 1_000_000n
const mostUnstaking = 32

interface Staking {
  state: State
  owner: string
  message: Message
  now: number
}

type Action = (staking: Staking) => bigint

/** By type. Each returns what it withdrew. */
export const stakings = new Map<number, Action>([
  [types.freeze, freeze],
  [types.unfreeze, unfreeze],
  [types.withdraw, withdraw],
  [types.delegate, lend],
  [types.undelegate, takeBack],
])

function resourceIn(message: Message, field: number): Resource {
  const resource = resources[Number(message.integer(field))]
  if (!resource) throw invalid('ResourceCode error, valid ResourceCode[BANDWIDTH、ENERGY]')
  return resource
}

function freeze({state, owner, message}: Staking): bigint {
  const [amount, resource] = [message.integer(2), resourceIn(message, 3)]
  const account = state.account(owner)!
  if (amount < trx) throw invalid('frozenBalance must be greater than or equal to 1 TRX')
  if (amount > account.balance) throw invalid('frozenBalance must be less than or equal to accountBalance')
  const stake = {...account[resource], own: account[resource].own + amount}
  state.setAccount(owner, {...account, balance: account.balance - amount, [resource]: stake})
  state.addStaked(resource, amount)
  return 0n
}

function unfreeze({state, owner, message, now}: Staking): bigint {
  const [amount, resource] = [message.integer(2), resourceIn(message, 3)]
  const {account, withdrawn} = withExpired(state.account(owner)!, now)
  const stake = account[resource]
  if (stake.own === 0n) throw invalid(`no frozenBalance(${resource === 'energy' ? 'Energy' : 'BANDWIDTH'})`)
  if (amount <= 0n || amount > stake.own) throw invalid(`Invalid unfreeze_balance, [${amount}] is error`)
  if (account.unstaking.length >= mostUnstaking)
    throw invalid('Invalid unfreeze operation, unfreezing times is over limit')
  const at = now + Number(parameters.getUnfreezeDelayDays) * dayMs
  const unstaking = [...account.unstaking, {resource, amount, at}]
  state.setAccount(owner, {...account, unstaking, [resource]: {...stake, own: stake.own - amount}})
  state.addStaked(resource, -amount)
  return withdrawn
}

function withdraw({state, owner, now}: Staking): bigint {
  const {account, withdrawn} = withExpired(state.account(owner)!, now)
  if (withdrawn === 0n) throw invalid('no unFreeze balance to withdraw ')
  state.setAccount(owner, account)
  return withdrawn
}

function withExpired(account: Account, now: number): {account: Account; withdrawn: bigint} {
  const expired = account.unstaking.filter(({at}) => at <= now)
  const withdrawn = expired.reduce((sum, {amount}) => sum + amount, 0n)
  const unstaking = account.unstaking.filter(({at}) => at > now)
  return {account: {...account, balance: account.balance + withdrawn, unstaking}, withdrawn}
}

function receiverIn({owner, message}: Staking): string {
  const receiver = addressOrNone(message.bytes(4))
  if (!receiver) throw invalid('Invalid receiverAddress')
  if (receiver === owner) throw invalid('receiverAddress must not be the same as ownerAddress')
  return receiver
}

function lend(staking: Staking): bigint {
  const {state, owner, message, now} = staking
  const [resource, amount, receiver] = [resourceIn(message, 2), message.integer(3), receiverIn(staking)]
  if (message.integer(5)) throw invalid('the local chain locks nothing')
  if (amount < trx) throw invalid('delegateBalance must be greater than or equal to 1 TRX')
  const lender = state.account(owner)!
  const stake = lender[resource]
  if (lendable(state, stake, {resource, now}) < amount)
    throw invalid(
      `delegateBalance must be less than or equal to available Freeze${resource === 'energy' ? 'Energy' : 'Bandwidth'}V2 balance`,
    )
  const borrower = state.account(receiver)
  if (!borrower) throw invalid(`Account[${receiver}] does not exist`)
  if (state.contract(receiver)) throw invalid('Do not allow delegate resources to contract addresses')
  const lent = new Map(stake.lent).set(receiver, (stake.lent.get(receiver) ?? 0n) + amount)
  state.setAccount(owner, {...lender, [resource]: {...stake, own: stake.own - amount, lent}})
  const borrowed = borrower[resource].borrowed + amount
  state.setAccount(receiver, {...borrower, [resource]: {...borrower[resource], borrowed}})
  return 0n
}

/** What the borrower used of it counts for the lender until it has come back. */
function takeBack(staking: Staking): bigint {
  const {state, owner, message, now} = staking
  const [resource, amount, receiver] = [resourceIn(message, 2), message.integer(3), receiverIn(staking)]
  const lender = state.account(owner)!
  const stake = lender[resource]
  const had = stake.lent.get(receiver)
  if (had === undefined) throw invalid('delegated Resource does not exist')
  if (amount <= 0n) throw invalid('unDelegateBalance must be more than 0 TRX')
  if (had < amount) throw invalid(`insufficient delegateFrozenBalance, request=${amount}, unlock_balance=${had}`)
  const moved = returnFrom(state, receiver, {resource, amount, now})
  const lent = new Map(stake.lent).set(receiver, had - amount)
  if (had === amount) lent.delete(receiver)
  const used = use(stake.used, moved, now)
  state.setAccount(owner, {...lender, [resource]: {...stake, own: stake.own + amount, lent, used}})
  return 0n
}

/** Returns how much of what the borrower used was of this loan. */
function returnFrom(
  state: State,
  receiver: string,
  {resource, amount, now}: {resource: Resource; amount: bigint; now: number},
): number {
  const borrower = state.account(receiver)
  if (!borrower) return 0
  const stake = borrower[resource]
  const inUse = usedAt(stake.used, now)
  const share = Math.floor(inUse * (Number(amount) / Number(stake.own + stake.borrowed)))
  const moved = Math.min(share, dailyOf(state, resource, amount))
  const rest = {...stake, borrowed: stake.borrowed - amount, used: {amount: inUse - moved, at: now}}
  state.setAccount(receiver, {...borrower, [resource]: rest})
  return moved
}
