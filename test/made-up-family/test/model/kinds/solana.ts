// Solana, with a token that the treasury sweeps: the address and the treasury sign, and the treasury pays. Transactions
// name a recent block, and expire by height. The worker's part is the real one; its node is the model's, which has the
// fees, and shows what everybody has as token accounts.
import {address} from '@solana/kit'
import {AccountState, getMintEncoder, getTokenEncoder} from '@solana-program/token'
import {addressOf, systemProgram, tokenProgram} from '../../../chains/solana/address.ts'
import {parsePayment, twoSignaturesFee} from '../../../chains/solana/message.ts'
import {validBlocks} from '../../../chains/solana/responses.ts'
import {accountOf, solanaSettings, splToken} from '../../../chains/solana/settings.ts'
import {open} from '../../../jobs/payouts/solana/family.ts'
import {type Block, balancesAt, branch, isPaidIn, type ModelChain, namesBlock, type Transaction} from '../chain.ts'
import type {Kind, Wanted} from './kind.ts'
import {jsonRpc, ModelNode} from './node.ts'

const chain = 'SOL'
const native = 'SOL'
const token = 'USDC'
/** In lamports: what an account for the token costs, and at most. */
const [rent, mostRent] = [2_039_280, 2_500_000n]
const mostPriorityFee = 100_000n

interface At {
  commitment: 'confirmed' | 'finalized'
}

const node = await ModelNode.open(
  jsonRpc({
    getLatestBlockhash: (chain, options) => {
      const {hash, height} = at(chain, options)
      return inContext({blockhash: hash, lastValidBlockHeight: height + validBlocks})
    },
    getBalance: (chain, of, options) => inContext(Number(balanceAt(at(chain, options), String(of), native))),
    getMultipleAccounts: (chain, of, options) =>
      inContext((of as string[]).map(each => accountAt(at(chain, options), each))),
    getTokenAccountsByOwner: (chain, owner, _, options) => {
      const pubkey = tokenAccountOf(String(owner))
      const account = accountAt(at(chain, options), pubkey)
      return inContext(account ? [{pubkey, account}] : [])
    },
    getMinimumBalanceForRentExemption: ({price}, bytes) => (bytes === 0 ? 890_880 : price > 6 ? 2 * rent : rent),
    getRecentPrioritizationFees: ({price}) => [{slot: 1, prioritizationFee: 10_000 * price}],
    simulateTransaction: (chain, raw) => {
      const {from, outputs, alwaysFails} = transactionOf(Buffer.from(String(raw), 'base64').toString('hex'))
      const isShort = outputs.some(({amount}) => balanceAt(chain.head, from, token) < amount)
      return inContext({err: alwaysFails || isShort ? {InstructionError: [2, {Custom: 1}]} : null, logs: []})
    },
  }),
)

const inContext = (value: unknown) => ({context: {slot: 1}, value})
const at = ({head, final}: ModelChain, options: unknown) => ((options as At).commitment === 'finalized' ? final : head)

const balanceAt = (block: Block, address: string, token: string) =>
  balancesAt(block, native).get(`${address} ${token}`) ?? 0n

/** The mint, a token account, or a wallet with coins; null if there is none. */
function accountAt(block: Block, of: string): object | null {
  if (of === mint) return stored(tokenProgram, mintBytes)
  const owner = ownerOf(of)
  if (owner === undefined) {
    const lamports = balanceAt(block, of, native)
    return lamports > 0n ? {...stored(systemProgram, []), lamports: Number(lamports)} : null
  }
  if (!isPaidIn(block, owner, token)) return null
  const holds = {
    mint: address(mint),
    owner: address(owner),
    amount: balanceAt(block, owner, token),
    delegate: null,
    state: AccountState.Initialized,
    isNative: null,
    delegatedAmount: 0n,
    closeAuthority: null,
  }
  return stored(tokenProgram, getTokenEncoder().encode(holds))
}

const stored = (owner: string, data: Iterable<number>) => {
  const text = Buffer.from(Uint8Array.from(data)).toString('base64')
  return {lamports: rent, owner, executable: false, data: [text, 'base64']}
}

const mintBytes = getMintEncoder().encode({
  mintAuthority: null,
  supply: 10n ** 18n,
  decimals: 6,
  isInitialized: true,
  freezeAuthority: null,
})

/** Whose token account it is, of those who were paid in the token, or are outsiders. */
function ownerOf(account: string): string | undefined {
  if (!owners.has(account))
    for (const {included} of branch(node.chain!.head))
      for (const {transaction} of included) for (const {to} of transaction.outputs) owners.set(tokenAccountOf(to), to)
  return owners.get(account)
}

let mint: string
let tokenAccountOf: (owner: string) => string
const owners = new Map<string, string>()

const worker = node.worker(settings => {
  const ours = solanaSettings(settings.chains.get(chain))
  mint = splToken(ours, token).contract
  tokenAccountOf = owner => accountOf(ours, token, owner)
  for (let n = 0; n < 10; n++) owners.set(tokenAccountOf(outsider(n)), outsider(n))
  return open(ours)
})

function transactionOf(raw: string): Transaction {
  const {txid, from, to, feePayer, amount, blockhash, priorityFee, token: transfer} = parsePayment(raw)
  const {fromAccount, madeFor} = transfer!
  return {
    txid,
    raw,
    from,
    feePayer,
    fee: twoSignaturesFee / (feePayer === from ? 2n : 1n) + priorityFee,
    outputs: [{to: madeFor ?? ownerOf(to)!, token, amount}],
    alwaysFails: fromAccount !== tokenAccountOf(from),
    rent: madeFor === undefined ? 0n : BigInt(rent),
    named: node.chain!.block(blockhash),
  }
}

/** A thief offers other fees, names an account that its address does not own, or has one made that is there. */
function intent({id, kind, payoutId, source, recipient}: Wanted, a: number): object {
  const offered = {priority_fee: String([0n, 500n, 1000n, 20_000n, mostPriorityFee, 2n * mostPriorityFee][a % 6])}
  if (kind === 'payout') return {intent: 'pay_solana', payout_id: payoutId, ...offered}
  if (kind === 'withdrawal') return {intent: 'withdraw_solana', outgoing_payment_id: id, ...offered}
  const account = tokenAccountOf(a % 7 === 0 ? recipient : source)
  return {
    intent: 'sweep_solana',
    chain,
    outgoing_payment_id: id,
    ...offered,
    ...(a % 5 && {account}),
    new_account: a % 11 === 0,
  }
}

function feeDetails(raw: string): object {
  const {priorityFee, token: transfer} = parsePayment(raw)
  return {priority_fee: String(priorityFee), ...(transfer?.madeFor !== undefined && {rent: String(mostRent)})}
}

const outsider = (n: number) => addressOf(Buffer.alloc(32, n + 1))

export const solana: Kind = {
  name: 'solana',
  chain,
  token,
  native,
  settings: {
    SOL_RPC_URL: `http://${node.address}`,
    SOL_FEE_BUDGET: '100000',
    SOL_DAILY_ACCOUNT_RENT: '100',
  },
  unit: 10n ** 6n,
  fee: twoSignaturesFee + mostPriorityFee + mostRent,
  rules: namesBlock,
  expires: true,
  ageing: 13,
  parse: transactionOf,
  worker,
  intent,
  feeDetails,
  outsider,
}
