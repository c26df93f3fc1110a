// What must hold of payouts when everything is calm again: checked against the chains themselves, block by block, and against what the
// merchants were answered. Each function returns what is wrong, in words.
import {formatUnits} from 'viem'
import {z} from 'zod'
import {chain as registered} from '../../chains/registry.ts'
import {USDC_ADDRESS} from '../../devnet/constants.ts'
import type {Claimant} from './claimant.ts'
import type {Merchant} from './merchant.ts'
import type {Payer} from './payer.ts'
import type {Run} from './run.ts'
import type {ChainCode} from './service.ts'
import {held, readTruth, type Truth} from './truth.ts'

const Payouts = z.object({
  payouts: z.array(
    z.object({
      id: z.string(),
      status: z.string(),
      chain: z.enum(['ETH', 'POLYGON']),
      token: z.string(),
      gross: z.string(),
      net: z.string(),
      address: z.string(),
      txid: z.string().nullable(),
      error: z.object({code: z.string(), message: z.string()}).nullable(),
    }),
  ),
  next_cursor: z.string().nullable(),
})
export type Payout = z.infer<typeof Payouts>['payouts'][number]

/** As the API shows them. */
export async function payoutsOf(merchant: Merchant): Promise<Payout[]> {
  const all: Payout[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await merchant.call('GET', `/v1/payouts?limit=100${cursor && `&cursor=${cursor}`}`)
    const {payouts, next_cursor} = Payouts.parse(JSON.parse(page))
    all.push(...payouts)
    cursor = next_cursor
  }
  return all
}

export async function payoutsAreOver({merchants}: Run): Promise<string[]> {
  const payouts = (await Promise.all(merchants.map(payoutsOf))).flat()
  return payouts.flatMap(({id, status, txid, error}) => {
    const isRight =
      (status === 'completed' && txid !== null && error === null) ||
      (status === 'failed' && txid === null && error !== null)
    return isRight ? [] : [`${id} is ${status}, with txid ${txid} and error ${JSON.stringify(error)}`]
  })
}

/** A key is one payout with one answer, to the address of that moment; and nobody else asked for any. */
export async function answersWereKept({claimants}: Run): Promise<string[]> {
  return (await Promise.all(claimants.map(answersOf))).flat()
}

async function answersOf({merchant, asked, plain, lost, wrong}: Claimant): Promise<string[]> {
  const payouts = new Map((await payoutsOf(merchant)).map(payout => [payout.id, payout]))
  const known = new Map<string, string>()
  const found = [...wrong]
  const note = (id: string, address: string, how: string) => {
    if (known.has(id)) found.push(`${id} was given to ${how} and to ${known.get(id)}`)
    known.set(id, how)
    if (payouts.get(id)?.address !== address)
      found.push(`${id}, asked for ${how} to ${address}, goes to ${payouts.get(id)?.address}`)
  }
  for (const {key, texts, address} of asked) {
    if (new Set(texts).size !== 1) found.push(`${key} was answered with ${texts.join(' and ')}`)
    note(JSON.parse(texts[0]!).id, address, `with ${key}`)
  }
  for (const {id, address} of plain) note(id, address, 'without a key')
  const more = payouts.size - known.size
  if (more > lost) found.push(`there are ${more} payouts that nobody was told of, and ${lost} answers were lost`)
  return found
}

/** Per payout one transfer of exactly net to its address, and no other. */
export async function treasuryPaidPayouts(run: Run): Promise<string[]> {
  const wrong: string[] = []
  const payouts = (await Promise.all(run.merchants.map(payoutsOf))).flat()
  for (const payer of run.payers) {
    const treasury = await treasuryOf(run, payer.chain)
    const {left} = await truthOf(payer)
    const paid = left
      .filter(({from, to}) => from === treasury && to !== treasury)
      .map(({txid, to, token, amount}) => `${txid} ${to} ${show(payer.chain, token, amount)}`)
    const asked = payouts
      .filter(({chain, status}) => chain === payer.chain && status === 'completed')
      .map(({txid, address, net, token}) => `${txid} ${address} ${net} ${token}`)
    wrong.push(
      ...without(paid, asked).map(what => `left the treasury of ${payer.chain} and is no completed payout: ${what}`),
    )
    wrong.push(
      ...without(asked, paid).map(what => `a completed payout of ${payer.chain} that the chain does not have: ${what}`),
    )
  }
  return wrong
}

/** The first list, less the second: as often as each stands there. */
function without(these: string[], those: string[]): string[] {
  const left = [...those]
  return these.filter(item => {
    const i = left.indexOf(item)
    if (i >= 0) left.splice(i, 1)
    return i < 0
  })
}

export async function sweepsReachedTheTreasury(run: Run): Promise<string[]> {
  const wrong: string[] = []
  const users = new Set(run.users.all.map(({address}) => address))
  for (const payer of run.payers) {
    const treasury = await treasuryOf(run, payer.chain)
    for (const {txid, from, to, token, amount} of (await truthOf(payer)).left)
      if (users.has(from) && to !== treasury)
        wrong.push(`${amount} of ${token} went from ${from} to ${to} by ${txid} of ${payer.chain}`)
  }
  return wrong
}

/** What came, less what left, is there; and the ledger says so. */
export async function ledgerIsTheChains(run: Run): Promise<string[]> {
  const wrong: string[] = []
  const came = await sums(
    run,
    `select chain, address, token, sum(amount) as amount from app.deposit where status = 'final' group by 1, 2, 3`,
  )
  const booked = await sums(
    run,
    `select chain, address, token, sum(amount) as amount from (
       select chain, address, token, amount from app.holding
       union all select chain, address, token, amount from app.deposit where status = 'final' and not credited and user_id is not null
       union all select t.chain, a.address, t.token, t.balance from app.treasury t join custody.address a on a.purpose = 'treasury'
     ) h group by 1, 2, 3`,
  )
  for (const payer of run.payers) {
    const client = await payer.client()
    const treasury = await treasuryOf(run, payer.chain)
    const {left, fees} = await truthOf(payer)
    for (const address of new Set([treasury, ...run.users.all.map(user => user.address)])) {
      for (const token of ['native', 'USDC'] as const) {
        const key = `${payer.chain} ${address} ${codeOf(payer.chain, token)}`
        const has = await held(client, token, address)
        const gone = left.reduce((sum, it) => (it.from === address && it.token === token ? sum + it.amount : sum), 0n)
        const swept = left.reduce(
          (sum, it) => (it.to === treasury && it.token === token && it.from !== treasury ? sum + it.amount : sum),
          0n,
        )
        const paidFees = token === 'native' ? (fees.get(address) ?? 0n) : 0n
        if (address !== treasury && has !== (came.get(key) ?? 0n) - gone - paidFees)
          wrong.push(`${key}: holds ${has}; ${came.get(key) ?? 0n} came, ${gone} left, and ${paidFees} were fees`)
        if (address === treasury && has !== swept - gone - paidFees)
          wrong.push(`the treasury, ${key}: holds ${has}; ${swept} came, ${gone} left, and ${paidFees} were fees`)
        if (has !== (booked.get(key) ?? 0n))
          wrong.push(`${key}: holds ${has}, and the ledger says ${booked.get(key) ?? 0n}`)
      }
    }
  }
  return wrong
}

async function sums({db}: Run, sql: string): Promise<Map<string, bigint>> {
  const {rows} = await db.query<{chain: string; address: string; token: string; amount: string}>(sql)
  return new Map(rows.map(({chain, address, token, amount}) => [`${chain} ${address} ${token}`, BigInt(amount)]))
}

/** The operator's own check of everything, over the finished run. */
export async function auditIsClean({service}: Run): Promise<string[]> {
  try {
    await service.sluice('audit')
    return []
  } catch (error) {
    return [`sluice audit: ${(error as {stdout?: string}).stdout || error}`]
  }
}

// --- what they stand on ---

const truths = new Map<Payer, Promise<Truth>>()

/** The chain does not change what it says any more: nothing of ours waits, and everything of ours is final. */
async function truthOf(payer: Payer): Promise<Truth> {
  const known = truths.get(payer) ?? payer.client().then(readTruth)
  truths.set(payer, known)
  return await known
}

async function treasuryOf({db}: Run, chain: ChainCode): Promise<string> {
  const {rows} = await db.query<{address: string}>('select app.treasury_address($1) as address', [chain])
  return rows[0]!.address
}

/** The name that the service has for it. */
function codeOf(chain: ChainCode, token: 'native' | 'USDC'): string {
  if (token === 'native') return registered(chain).assets[0].token
  return registered(chain).assets.some(asset => asset.token === 'USDC') ? 'USDC' : USDC_ADDRESS.toLowerCase()
}

function show(chain: ChainCode, token: 'native' | 'USDC', amount: bigint): string {
  const code = codeOf(chain, token)
  const {decimals} = registered(chain).assets.find(asset => asset.token === code)!
  return `${formatUnits(amount, decimals)} ${code}`
}
