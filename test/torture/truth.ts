// The truth of a chain at the end, read block by block, from first to last, without help from the service under test.
import type pg from 'pg'

/** The addresses to read. */
export interface Ours {
  treasury: string
  /** Of users and of payment requests. */
  addresses: Set<string>
  /** Custody's signatures come from its journal. */
  db: pg.Pool
}

export interface Came {
  txid: string
  outputIndex: number
  address: string
  token: string
  amount: bigint
  height: number
  /** The time of its block, in milliseconds. */
  minedAt: number
  /** The earliest time at which it could be seen; undefined if unknown. */
  madeAt?: number
}

/** Tokens have the names of the service. */
export interface Truth {
  /** Hashes by height. */
  blocks: Map<number, string>
  /** Payments to addresses of users and of payment requests. */
  deposits: Came[]
  /** Amounts that our transactions sent to anybody but the treasury. */
  paid: {txid: string; to: string; token: string; amount: bigint}[]
  /** Balances of our addresses: by '<address> <token>'. */
  held: Map<string, bigint>
  /** Network fees of transactions of ours. */
  fees: bigint
  /** Broken rules of the chain's family, in words. */
  wrong: string[]
}

/** An amount that a transaction of `from` moved. */
export interface Left {
  txid: string
  from: string
  to: string
  token: string
  amount: bigint
}

interface Read {
  /** The token in which network fees are paid: the treasury sends it to addresses as well. */
  coin: string
  deposits: Came[]
  left: Left[]
  /** Network fees by payer. */
  fees: Map<string, bigint>
  held: Map<string, bigint>
}

/**
 * What our transactions paid to others. Wrong is what addresses hold and nothing explains, what left an address for
 * anybody but the treasury, and what the treasury sent to an address that is no gas.
 */
export function accountFor(
  {treasury, addresses}: Ours,
  {coin, deposits, left, fees, held}: Read,
): Pick<Truth, 'paid' | 'wrong' | 'fees'> {
  const isOurs = (address: string) => address === treasury || addresses.has(address)
  const wrong: string[] = []
  for (const [what, has] of held) {
    const [address = '', token] = what.split(' ')
    const of = left.filter(it => it.token === token)
    const came =
      address === treasury
        ? sum(of.filter(it => it.to === treasury && it.from !== treasury))
        : sum(deposits.filter(it => it.address === address && it.token === token)) +
          sum(of.filter(it => it.to === address && it.from === treasury))
    const gone = sum(of.filter(it => it.from === address))
    const paidFees = token === coin ? (fees.get(address) ?? 0n) : 0n
    if (has !== came - gone - paidFees)
      wrong.push(`${address} holds ${has} ${token}; ${came} came, ${gone} left, and ${paidFees} were fees`)
  }
  const paid = left.filter(({from, to}) => isOurs(from) && !isOurs(to))
  for (const {txid, from, to} of paid) if (from !== treasury) wrong.push(`${txid} went from ${from} to ${to}`)
  for (const {txid, from, to, token} of left)
    if (isOurs(from) && addresses.has(to) && (from !== treasury || token !== coin))
      wrong.push(`${txid} took ${token} from ${from} to ${to}, and is no gas`)
  return {
    paid: paid.map(({txid, to, token, amount}) => ({txid, to, token, amount})),
    wrong,
    fees: [treasury, ...addresses].reduce((total, address) => total + (fees.get(address) ?? 0n), 0n),
  }
}

function sum(amounts: {amount: bigint}[]): bigint {
  return amounts.reduce((total, {amount}) => total + amount, 0n)
}
