// What must hold of payouts when everything is calm again: compared with the chains, block by block, and with the API's
// responses. Each function returns the errors, in words.
import {z} from 'zod'
import {inCoins} from './asset.ts'
import type {Claimant} from './claimant.ts'
import type {Merchant} from './merchant.ts'
import {type Run, truthOf} from './run.ts'
import {chainCodes} from './service.ts'

const Payouts = z.object({
  payouts: z.array(
    z.object({
      id: z.string(),
      status: z.string(),
      chain: z.enum(chainCodes),
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

/** A key has one payout with one response, to the address of that moment; and there are no other payouts. */
export async function responsesStayedTrue({claimants}: Run): Promise<string[]> {
  return (await Promise.all(claimants.map(responsesOf))).flat()
}

async function responsesOf({merchant, asked, plain, lost, wrong}: Claimant): Promise<string[]> {
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
    if (new Set(texts).size !== 1) found.push(`${key} got the responses ${texts.join(' and ')}`)
    note(JSON.parse(texts[0]!).id, address, `with ${key}`)
  }
  for (const {id, address} of plain) note(id, address, 'without a key')
  const more = payouts.size - known.size
  if (more > lost) found.push(`${more} payouts were in no response, and only ${lost} responses were lost`)
  return found
}

/** Each payout has one transfer of exactly its net to its address, and there are no others. */
export async function whatLeftWasPaidOut(run: Run): Promise<string[]> {
  const wrong: string[] = []
  const payouts = (await Promise.all(run.merchants.map(payoutsOf))).flat()
  for (const payer of run.payers) {
    const paid = (await truthOf(run, payer)).paid.map(
      ({txid, to, token, amount}) => `${txid} ${to} ${inCoins(run.assets, payer.chain, token, amount)} ${token}`,
    )
    const asked = payouts
      .filter(({chain, status}) => chain === payer.chain && status === 'completed')
      .map(({txid, address, net, token}) => `${txid} ${address} ${net} ${token}`)
    wrong.push(
      ...without(paid, asked).map(what => `was paid by us on ${payer.chain} and is no completed payout: ${what}`),
    )
    wrong.push(
      ...without(asked, paid).map(what => `a completed payout of ${payer.chain} that the chain does not have: ${what}`),
    )
  }
  return wrong
}

/** The first list less the second, by number of occurrences. */
function without(these: string[], those: string[]): string[] {
  const left = [...those]
  return these.filter(item => {
    const i = left.indexOf(item)
    if (i >= 0) left.splice(i, 1)
    return i < 0
  })
}

/** The rules of each family of chains. */
export async function rulesOfTheChains(run: Run): Promise<string[]> {
  const wrong = run.payers.map(async payer => (await truthOf(run, payer)).wrong.map(what => `${payer.chain}: ${what}`))
  return (await Promise.all(wrong)).flat()
}

/** What each address holds, and the network fees. */
export async function ledgerIsTheChains(run: Run): Promise<string[]> {
  const wrong: string[] = []
  const booked = await sums(
    run,
    `select chain, address || ' ' || token as what, sum(amount) as amount from (
       select chain, address, token, amount from app.holding
       union all select chain, address, app.native_token(chain), amount from app.gas
       union all select chain, address, token, amount from app.deposit where status = 'final' and not credited and merchant_id is not null
       union all select chain, app.treasury_address(chain), token, balance from app.treasury
     ) h group by 1, 2`,
  )
  const fees = await sums(
    run,
    `select chain, 'fees' as what, sum(amount) as amount from app.ledger_entry where account = 'network' group by 1`,
  )
  for (const payer of run.payers) {
    const truth = await truthOf(run, payer)
    const compare = (what: string, real: bigint, kept = 0n) => {
      if (real !== kept) wrong.push(`${payer.chain} ${what}: ${real} on the chain, and in the ledger ${kept}`)
    }
    for (const [what, amount] of truth.held) compare(what, amount, booked.get(`${payer.chain} ${what}`))
    compare('fees', truth.fees, fees.get(`${payer.chain} fees`))
  }
  return wrong
}

async function sums({db}: Run, sql: string): Promise<Map<string, bigint>> {
  const {rows} = await db.query<{chain: string; what: string; amount: string}>(sql)
  return new Map(rows.map(({chain, what, amount}) => [`${chain} ${what}`, BigInt(amount)]))
}

/** The operator's own audit of everything, over the finished run. */
export async function auditIsClean({service}: Run): Promise<string[]> {
  try {
    await service.sluice('audit')
    return []
  } catch (error) {
    return [`sluice audit: ${(error as {stdout?: string}).stdout || error}`]
  }
}
