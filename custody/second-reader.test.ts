// The worker's second reader (jobs/payouts/second-reader.ts) of what custody really signs: what is right is taken, and
// every transaction that does something else is not, although its signature is right. Here, because only custody may
// import what signs.
import pg from 'pg'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {scriptOfAddress} from '../chains/bitcoin/script.ts'
import type {BitcoinSettings} from '../chains/bitcoin/settings.ts'
import type {EvmSettings} from '../chains/evm/settings.ts'
import {settingsFrom} from '../chains/settings.ts'
import {type SolanaSettings, splToken} from '../chains/solana/settings.ts'
import {associatedAccount, tokenPrograms} from '../chains/solana/tokens.ts'
import {mostStakingFee, mostTokenBytesFee} from '../chains/tron/bytes.ts'
import type {TronSettings} from '../chains/tron/settings.ts'
import {callData, rawOf, reference, transactionOf, transferData} from '../chains/tron/transaction.ts'
import {newAddress} from '../devnet/tron/client.ts'
import {readSigned as ofBitcoin} from '../jobs/payouts/bitcoin/second-reader.ts'
import type {Context, PlannedAttempt, Reading} from '../jobs/payouts/context.ts'
import type {Signed} from '../jobs/payouts/custody-client.ts'
import {readSigned as ofEvm} from '../jobs/payouts/evm/second-reader.ts'
import {differences, Unreadable} from '../jobs/payouts/second-reader.ts'
import {readSigned as ofSolana} from '../jobs/payouts/solana/second-reader.ts'
import {readSigned as ofTron} from '../jobs/payouts/tron/second-reader.ts'
import {ChainWriter} from '../test/support/chain-writer.ts'
import {type TestDatabase, testDatabase} from '../test/support/database.ts'
import {signTransaction} from './bitcoin/sign.ts'
import {signPlan} from './evm/sign-plan.ts'
import {families} from './families.ts'
import {type KeyPath, type KeyStore, localKeys} from './keys/key-store.ts'
import {sign as signSolana} from './solana/sign.ts'
import {sign as signTron} from './tron/sign.ts'

const phrase = 'test test test test test test test test test test test junk'
const blockhash = 'EETubP5AKHgjPAhzPAFcb8BAY1hMH639CWCFTqi3hq1k'
let keys: KeyStore
let db: TestDatabase
let tronChain: ChainWriter
const to = {} as Context

beforeAll(async () => {
  keys = await localKeys(phrase, families)
  db = await testDatabase()
  to.pool = new pg.Pool({connectionString: db.url('sluice_jobs'), max: 2})
  tronChain = await ChainWriter.open(db, 'TRON')
  await tronChain.write({add: [[], []]})
  await tronChain.finalise(1)
  const solana = await ChainWriter.open(db, 'SOL')
  await solana.write({add: [[]]})
  await solana.close()
  await db.rows(`update chain.block set hash = $1 where chain = 'SOL' and height = 1`, [blockhash])
})
afterAll(async () => {
  await to.pool?.end()
  await tronChain?.close()
  await db?.drop()
})

type More = Record<string, unknown>

/** What custody signs for a plan with these changes, and how the worker reads it, which asked for the plan without. */
interface Case {
  /** Resolves to the signature of the plan with these changes. */
  sign(more?: More): Promise<Signed>
  read(signed: Signed): Promise<Reading>
}

async function wrong({read}: Case, signed: Signed): Promise<string[]> {
  try {
    const reading = await read(signed)
    return [
      ...differences(reading).map(line => line.split(' is ')[0]!),
      ...(reading.waits ? ['block that it names'] : []),
    ]
  } catch (error) {
    if (error instanceof Unreadable) return ['unreadable']
    throw error
  }
}

/** Each bit of a byte of the transaction, one at a time. */
async function unnoticed(one: Case): Promise<number[]> {
  const signed = await one.sign()
  const prefix = signed.raw.startsWith('0x') ? '0x' : ''
  const bytes = Buffer.from(signed.raw.slice(prefix.length), 'hex')
  const found: number[] = []
  for (let i = 0; i < bytes.length; i++) {
    const changed = Buffer.from(bytes)
    changed[i]! ^= 1 << (i % 8)
    if (!(await wrong(one, {...signed, raw: prefix + changed.toString('hex')})).length) found.push(i)
  }
  return found
}

const payment = (more: More) =>
  ({
    outgoingPayment: {id: 'b5c3d5a6-2f4e-4a7a-9d55-6b0e7a0f5f11', nonce: null, firstInput: null, ...more},
    kind: 'effect',
  }) as unknown as PlannedAttempt

const address = async (path: KeyPath, code: string) => {
  const {family} = path
  return families[family].address(await keys.publicKey(path), settingsFrom(code as 'ETH') as never)
}

// --- Tron ---

const tronPath = {family: 'tron', purpose: 'treasury', index: 0} as const
const tronRecipient = newAddress()
const tron = settingsFrom('TRON') as TronSettings
const usdt = 'TXYZopYRdj2D9XRtbG411XZZ3kM5VkAeBf'

async function ofTronPayment(token: 'TRX' | 'USDT'): Promise<Case> {
  const source = await address(tronPath, 'TRON')
  const on = {height: 1, hash: tronChain.blocks[1]!.hash}
  const end = Date.now() + 300_000
  const call = token === 'USDT' ? {contract: usdt, feeLimit: 7_000_000n} : undefined
  const maxFee = call ? call.feeLimit + mostTokenBytesFee(tron) : tron.maxPaymentFee
  const plan = {paths: {source: tronPath, feePayer: tronPath}, source, destination: tronRecipient, amount: 5n, on, call}
  const given = {...plan, lifetime: {from: 1, end, clock_ms: end}, maxFee, timestamp: Date.now()}
  return {
    async sign(more = {}) {
      const {txid, raw} = await signTron(keys, {...given, ...more} as never)
      return {ok: true, txid, raw, amount: '5', feeDetails: {}, maxFee}
    },
    read: async signed =>
      await ofTron(
        to,
        tron,
        payment({chain: 'TRON', kind: 'payout', token, amount: 5n, source, recipient: tronRecipient}),
        signed,
      ),
  }
}

/** Each thing that is done with the treasury's stake, as custody signs it with these changes. */
async function ofStaking(kind: 'delegate' | 'undelegate' | 'stake' | 'unstake' | 'reclaim'): Promise<Case> {
  const source = await address(tronPath, 'TRON')
  const end = Date.now() + 300_000
  const staking = {
    kind,
    owner: source,
    ...(kind !== 'reclaim' && {amount: 5_000_000n, resource: 'energy'}),
    ...(kind.endsWith('delegate') && {receiver: tronRecipient}),
  }
  const maxFee = mostStakingFee(tron)
  const given = {
    paths: {source: tronPath, feePayer: tronPath},
    source,
    on: {height: 1, hash: tronChain.blocks[1]!.hash},
    lifetime: {from: 1, end, clock_ms: end},
    maxFee,
    timestamp: Date.now(),
  }
  const resource = kind === 'reclaim' ? null : ('energy' as const)
  return {
    async sign({staking: other = {}, ...more}: More & {staking?: object} = {}) {
      const {txid, raw} = await signTron(keys, {...given, ...more, staking: {...staking, ...other}} as never)
      return {ok: true, txid, raw, amount: '0', feeDetails: {}, maxFee}
    },
    read: async signed =>
      await ofTron(
        to,
        tron,
        payment({
          chain: 'TRON',
          kind,
          token: 'TRX',
          amount: 5_000_000n,
          source,
          recipient: kind.endsWith('delegate') ? tronRecipient : source,
          resource,
        }),
        signed,
      ),
  }
}

describe('Tron', () => {
  test.each(['delegate', 'undelegate', 'stake', 'unstake', 'reclaim'] as const)(
    'a %s that custody signs says what was asked, and no bit of it can change unnoticed',
    async kind => {
      const one = await ofStaking(kind)
      expect(differences(await one.read(await one.sign()))).toEqual([])
      expect(await unnoticed(one)).toEqual([])
    },
  )

  test.each<[string, 'delegate' | 'undelegate' | 'stake' | 'unstake' | 'reclaim', More]>([
    ['recipient', 'delegate', {staking: {receiver: newAddress()}}],
    ['amount', 'delegate', {staking: {amount: 5_000_001n}}],
    ['resource', 'delegate', {staking: {resource: 'bandwidth'}}],
    ['unreadable', 'delegate', {staking: {kind: 'undelegate'}}],
    ['recipient', 'undelegate', {staking: {receiver: newAddress()}}],
    ['amount', 'undelegate', {staking: {amount: 5_000_001n}}],
    ['amount', 'stake', {staking: {amount: 5_000_001n}}],
    ['resource', 'stake', {staking: {resource: 'bandwidth'}}],
    ['unreadable', 'stake', {staking: {kind: 'unstake'}}],
    ['amount', 'unstake', {staking: {amount: 5_000_001n}}],
    ['owner', 'reclaim', {staking: {owner: newAddress()}}],
    ['signer', 'reclaim', {paths: {source: {...tronPath, index: 1}}}],
    ['unreadable', 'reclaim', {staking: {kind: 'stake', amount: 5n, resource: 'energy'}}],
  ])('another %s of a %s is not taken', async (field, kind, more) => {
    const one = await ofStaking(kind)
    expect(await wrong(one, await one.sign(more))).toContain(field)
  })

  test('what was signed before a rewind took the head back says what was asked', async () => {
    const one = await ofTronPayment('USDT')
    const signed = await one.sign()
    const set = (time: string) => db.rows(`update chain.cursor set head_time = ${time} where chain = 'TRON'`)
    await set(`head_time - interval '10 minutes'`)
    const read = await one.read(signed)
    await set(`head_time + interval '10 minutes'`)
    expect(differences(read)).toEqual([])
  })

  test.each(['TRX', 'USDT'] as const)('a payment of %s that custody signs says what was asked', async token => {
    const one = await ofTronPayment(token)
    expect(differences(await one.read(await one.sign()))).toEqual([])
  })

  test.each(['TRX', 'USDT'] as const)('no bit of a payment of %s can change unnoticed', async token => {
    expect(await unnoticed(await ofTronPayment(token))).toEqual([])
  })

  test.each<[string, 'TRX' | 'USDT', More]>([
    ['recipient', 'TRX', {destination: newAddress()}],
    ['amount', 'TRX', {amount: 6n}],
    ['signer', 'TRX', {paths: {source: {...tronPath, index: 1}}}],
    ['owner', 'TRX', {source: newAddress()}],
    ['block that it names', 'TRX', {on: {height: 2, hash: 'f'.repeat(64)}}],
    ['expiry', 'TRX', {lifetime: {from: 1, end: Date.now() + 3_600_000, clock_ms: 0}}],
    ['unreadable', 'TRX', {call: {contract: usdt, feeLimit: 7_000_000n}}],
    ['recipient', 'USDT', {destination: newAddress()}],
    ['amount', 'USDT', {amount: 2n ** 70n}],
    ['contract', 'USDT', {call: {contract: newAddress(), feeLimit: 7_000_000n}}],
    ['fee limit', 'USDT', {call: {contract: usdt, feeLimit: 7_000_001n}}],
    ['fee limit', 'USDT', {call: {contract: usdt, feeLimit: 0n}}],
    ['unreadable', 'USDT', {call: undefined}],
  ])('another %s of a payment of %s is not taken', async (field, token, more) => {
    const one = await ofTronPayment(token)
    expect(await wrong(one, await one.sign(more))).toContain(field)
  })

  test.each<[string, 'TRX' | 'USDT', (frame: ReturnType<typeof frameOf>, from: string) => Uint8Array]>([
    [
      'memo',
      'TRX',
      (frame, from) => transferData({...frame, memo: Buffer.from('x')}, {from, to: tronRecipient, amount: 5n}),
    ],
    [
      'fee limit',
      'TRX',
      (frame, from) => transferData({...frame, feeLimit: 1n}, {from, to: tronRecipient, amount: 5n}),
    ],
    [
      'value',
      'USDT',
      (frame, from) => callData({...frame, feeLimit: 1n}, {from, contract: usdt, value: 1n, data: Buffer.from('a9')}),
    ],
    [
      'recipient',
      'USDT',
      (frame, from) =>
        callData({...frame, feeLimit: 1n}, {from, contract: usdt, value: 0n, data: Buffer.from('095ea7b3', 'hex')}),
    ],
  ])('a %s in a payment of %s is not taken', async (field, token, make) => {
    const one = await ofTronPayment(token)
    const rawData = make(frameOf(), await address(tronPath, 'TRON'))
    const {txid} = transactionOf(rawData, [])
    const signature = await keys.sign(tronPath, Buffer.from(txid, 'hex'))
    const signed = {...(await one.sign()), txid, raw: rawOf(transactionOf(rawData, [signature]))}
    expect(await wrong(one, signed)).toContain(field)
  })

  const frameOf = () => ({
    ...reference(1, tronChain.blocks[1]!.hash),
    expiration: Date.now() + 300_000,
    timestamp: Date.now(),
  })
})

// --- Solana ---

describe('Solana', () => {
  const deposit: KeyPath = {family: 'solana', purpose: 'deposit', index: 0}
  const treasury: KeyPath = {family: 'solana', purpose: 'treasury', index: 0}
  const recipient = '5SHQQrjzHCMkZZJzYNhx9szLeYsVCYw4NNr8p7xT9BAY'

  const settings = settingsFrom('SOL', {SOL_NETWORK: 'devnet'}) as SolanaSettings
  const {contract: mint, sweep: way} = splToken(settings, 'USDC')

  type Moved = 'coins' | 'token' | 'token, with an account that is made'
  async function ofPayment(kind: 'payout' | 'sweep', moved: Moved = 'coins'): Promise<Case> {
    const own = await address(treasury, 'SOL')
    const isSweep = kind === 'sweep'
    const source = isSweep ? await address(deposit, 'SOL') : own
    const destination = isSweep ? own : recipient
    const paths = {source: isSweep ? deposit : treasury, feePayer: treasury}
    const common = {paths, source, feePayer: own, destination, amount: 1_500_000n, blockhash, computeUnitLimit: 1999}
    // A payment makes the account of its recipient, if it is not there; a sweep that of the treasury, once.
    const isNew = moved !== 'coins' && (kind === 'payout' || moved !== 'token')
    const [account, its] = [source, destination].map(owner => associatedAccount(owner, mint, way.program))
    const transfer = {
      ...{program: tokenPrograms[way.program], mint, decimals: 6, fromAccount: account, to: its},
      ...(isNew && {madeFor: destination}),
    }
    const given = moved === 'coins' ? common : {...common, transfer}
    const maxFee = (isSweep ? 20_000n : 15_000n) + (isNew ? settings.maxAccountRent : 0n)
    const token = moved === 'coins' ? 'SOL' : 'USDC'
    const rent: Record<string, string> = isNew ? {rent: String(settings.maxAccountRent)} : {}
    return {
      async sign(more = {}) {
        const {txid, raw} = await signSolana(keys, {
          ...given,
          priorityFee: 10_000n,
          lifetime: {},
          maxFee,
          ...more,
        } as never)
        return {ok: true, txid, raw, amount: '1500000', feeDetails: {priority_fee: '10000', ...rent}, maxFee}
      },
      read: async signed =>
        await ofSolana(
          to,
          settings,
          payment({chain: 'SOL', token, kind, amount: 1_500_000n, source, recipient: destination, feePayer: own}),
          signed,
        ),
    }
  }

  const all = [
    ['payout', 'coins'],
    ['sweep', 'coins'],
    ['payout', 'token'],
    ['sweep', 'token'],
    ['sweep', 'token, with an account that is made'],
  ] as const

  test.each(all)(
    'a %s of a %s that custody signs says what was asked, and no bit of it can change unnoticed',
    async (kind, moved) => {
      const one = await ofPayment(kind, moved)
      expect(differences(await one.read(await one.sign()))).toEqual([])
      expect(await unnoticed(one)).toEqual([])
    },
  )

  test.each<[string, More]>([
    ['recipient', {destination: 'EETubP5AKHgjPAhzPAFcb8BAY1hMH639CWCFTqi3hq1k'}],
    ['amount', {amount: 1_500_001n}],
    ['priority fee', {priorityFee: 10_001n}],
    ['block that it names', {blockhash: '5SHQQrjzHCMkZZJzYNhx9szLeYsVCYw4NNr8p7xT9BAY'}],
    ['signed by', {paths: {source: deposit, feePayer: deposit}}],
  ])('another %s is not taken', async (field, more) => {
    const one = await ofPayment('payout')
    expect(await wrong(one, await one.sign(more))).toContain(field)
  })

  const stranger = 'EETubP5AKHgjPAhzPAFcb8BAY1hMH639CWCFTqi3hq1k'
  const transferOf = async (more: More) => {
    const own = await address(treasury, 'SOL')
    const [fromAccount, its] = [own, recipient].map(owner => associatedAccount(owner, mint, way.program))
    const transfer = {program: tokenPrograms[way.program], mint, decimals: 6, fromAccount, to: its, madeFor: recipient}
    return {transfer: {...transfer, ...more}}
  }
  test.each<[string, More]>([
    ['recipient', {to: stranger}],
    ['from account', {fromAccount: stranger}],
    ['mint', {mint: stranger}],
    ['decimals', {decimals: 7}],
    ['programs', {program: tokenPrograms['token-2022']}],
    ['account made', {madeFor: stranger}],
    ['account made', {madeFor: undefined}],
  ])('of a token, another %s is not taken', async (field, more) => {
    const one = await ofPayment('payout', 'token')
    expect(await wrong(one, await one.sign(await transferOf(more)))).toContain(field)
  })
})

// --- Bitcoin ---

describe('Bitcoin', () => {
  const settings = settingsFrom('BTC') as BitcoinSettings
  const format = settings.chain.networks[settings.network]
  const treasuryPath: KeyPath = {family: 'bitcoin', purpose: 'treasury', index: 0}
  const paths: KeyPath[] = [0, 1].map(index => ({family: 'bitcoin', purpose: 'deposit', index}))
  const inputs = paths.map((path, i) => ({outpoint: `${String(i).repeat(64)}:${i}`, value: 60_000n, path}))

  async function ofPayment(kind: 'payout' | 'sweep' = 'payout'): Promise<Case & {scripts: Record<string, Uint8Array>}> {
    const treasury = await address(treasuryPath, 'BTC')
    const recipient = kind === 'payout' ? await address({...treasuryPath, index: 7}, 'BTC') : treasury
    const [paid, change, stranger] = [recipient, treasury, await address({...treasuryPath, index: 8}, 'BTC')].map(one =>
      scriptOfAddress(one, format),
    ) as [Uint8Array, Uint8Array, Uint8Array]
    const outputs =
      kind === 'payout'
        ? [
            {script: paid, value: 100_000n},
            {script: change, value: 19_000n},
          ]
        : [{script: change, value: 119_000n}]
    const outgoingPayment = {kind, amount: 100_000n, recipient, feePayer: treasury, firstInput: inputs[0]!.outpoint}
    const spent = inputs.map(({outpoint, value: amount}) => ({outpoint, amount, isTreasury: false}))
    return {
      scripts: {paid, change, stranger},
      async sign(more = {}) {
        const {txid, raw, vsize} = await signTransaction({inputs, outputs, ...more}, keys)
        return {ok: true, txid, raw, amount: '100000', feeDetails: {network_fee: '1000', vsize}, maxFee: 1000n}
      },
      read: async signed =>
        await ofBitcoin({...payment(outgoingPayment), inputs: spent, chain: {settings}} as never, signed),
    }
  }

  test.each(['payout', 'sweep'] as const)(
    'a %s that custody signs says what was asked, and no bit of it can change unnoticed',
    async kind => {
      const one = await ofPayment(kind)
      expect(differences(await one.read(await one.sign()))).toEqual([])
      expect(await unnoticed(one)).toEqual([])
    },
  )

  test('another output, amount or input, and a signature of another key, are not taken', async () => {
    const one = await ofPayment()
    const {paid, change, stranger} = one.scripts as Record<'paid' | 'change' | 'stranger', Uint8Array>
    const outputs = (...given: [Uint8Array, bigint][]) => ({outputs: given.map(([script, value]) => ({script, value}))})
    for (const [field, more] of [
      ['outputs', outputs([stranger, 100_000n], [change, 19_000n])],
      ['outputs', outputs([paid, 100_000n], [stranger, 19_000n])],
      ['outputs', outputs([paid, 100_001n], [change, 18_999n])],
      ['outputs', outputs([paid, 100_000n], [change, 18_999n])],
      ['outputs', outputs([paid, 100_000n], [change, 18_999n], [stranger, 1n])],
      ['inputs', {inputs: [inputs[0], {...inputs[1], outpoint: `${'2'.repeat(64)}:1`}]}],
      ['first input', {inputs: [inputs[1], inputs[0]]}],
      ['signatures', {inputs: [inputs[0], {...inputs[1], value: 60_001n}]}],
    ] as [string, More][])
      expect([field, await wrong(one, await one.sign(more))]).toEqual([field, expect.arrayContaining([field])])
  })
})

// --- EVM ---

describe('Ethereum', () => {
  const settings = settingsFrom('ETH') as EvmSettings
  const treasuryPath: KeyPath = {family: 'evm', purpose: 'treasury', index: 0}
  const depositPath: KeyPath = {family: 'evm', purpose: 'deposit', index: 3}
  const recipient = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'
  const other = '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC'
  const id = 'b5c3d5a6-2f4e-4a7a-9d55-6b0e7a0f5f11'

  async function ofPayment(kind: 'payout' | 'sweep' | 'cancel', token: 'ETH' | 'USDC'): Promise<Case> {
    const treasury = await address(treasuryPath, 'ETH')
    const isSweep = kind === 'sweep'
    const source = isSweep ? await address(depositPath, 'ETH') : treasury
    const destination = kind === 'payout' ? recipient : treasury
    const paths = {source: isSweep ? depositPath : treasuryPath, feePayer: treasuryPath}
    const fees = {maxFeePerGas: 30n, maxPriorityFeePerGas: 2n, gasLimit: 90_000n}
    const amount = kind === 'cancel' ? 0n : 5n
    const of = {
      kind: kind === 'payout' ? 'pay' : kind,
      subjectId: id,
      token: kind === 'cancel' ? 'ETH' : token,
      nonce: 9,
    }
    const given = {...of, fees, paths, source, feePayer: treasury, destination, amount}
    const asked = {
      id,
      chain: 'ETH',
      kind: kind === 'cancel' ? 'payout' : kind,
      token,
      amount: 5n,
      source,
      recipient: destination,
    }
    return {
      async sign(more = {}) {
        const plan = {...given, ...more} as never
        const {txid, raw} = await signPlan({...settings, ...((more.settings as object) ?? {})}, keys, plan)
        const feeDetails = {max_fee_per_gas: '30', max_priority_fee_per_gas: '2', gas_limit: 90_000}
        return {ok: true, txid, raw, amount: String(amount), feeDetails, maxFee: 2_700_000n}
      },
      read: async signed => {
        const planned = {
          ...payment({...asked, feePayer: treasury, nonce: 9}),
          kind: kind === 'cancel' ? 'cancel' : 'effect',
        }
        return await ofEvm({settings, native: 'ETH'} as never, planned as never, signed)
      },
    }
  }

  test.each([
    ['payout', 'ETH'],
    ['payout', 'USDC'],
    ['sweep', 'USDC'],
    ['cancel', 'USDC'],
  ] as const)(
    'a %s of %s that custody signs says what was asked, and no bit of it can change unnoticed',
    async (kind, token) => {
      const one = await ofPayment(kind, token)
      expect(differences(await one.read(await one.sign()))).toEqual([])
      expect(await unnoticed(one)).toEqual([])
    },
  )

  test.each<[string, 'payout' | 'sweep' | 'cancel', 'ETH' | 'USDC', More]>([
    ['recipient', 'payout', 'ETH', {destination: other}],
    ['amount', 'payout', 'ETH', {amount: 6n}],
    ['nonce', 'payout', 'ETH', {nonce: 10}],
    ['gas', 'payout', 'ETH', {fees: {maxFeePerGas: 30n, maxPriorityFeePerGas: 2n, gasLimit: 90_001n}}],
    [
      'fee for a unit of gas',
      'payout',
      'ETH',
      {fees: {maxFeePerGas: 31n, maxPriorityFeePerGas: 2n, gasLimit: 90_000n}},
    ],
    ['priority fee', 'payout', 'ETH', {fees: {maxFeePerGas: 30n, maxPriorityFeePerGas: 3n, gasLimit: 90_000n}}],
    ['chain', 'payout', 'ETH', {settings: {chainId: 2}}],
    ['signer', 'payout', 'ETH', {paths: {source: depositPath, feePayer: depositPath}}],
    ['data', 'payout', 'ETH', {token: 'USDC'}],
    ['recipient', 'payout', 'USDC', {destination: other}],
    ['amount', 'payout', 'USDC', {amount: 6n}],
    ['unreadable', 'payout', 'USDC', {token: 'ETH'}],
    ['recipient', 'sweep', 'USDC', {destination: other}],
    ['amount', 'sweep', 'USDC', {amount: 6n}],
    ['from', 'sweep', 'USDC', {source: other}],
    ['authorised by', 'sweep', 'USDC', {paths: {source: {...depositPath, index: 4}, feePayer: treasuryPath}}],
    ['authorisation', 'sweep', 'USDC', {subjectId: 'b5c3d5a6-2f4e-4a7a-9d55-6b0e7a0f5f12'}],
    ['recipient', 'cancel', 'USDC', {destination: other}],
    ['amount', 'cancel', 'USDC', {amount: 1n}],
  ])('another %s of a %s of %s is not taken', async (field, kind, token, more) => {
    const one = await ofPayment(kind, token)
    expect(await wrong(one, await one.sign(more))).toContain(field)
  })
})
