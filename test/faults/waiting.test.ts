// Each reason for which a payout waits, made to happen with real processes on real local chains: what its merchant and
// the operator are shown, and that it goes on by itself once the cause is gone. (What only rows can show is in
// db/waiting.test.ts.)
import type {ChildProcess} from 'node:child_process'
import {randomUUID} from 'node:crypto'
import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {assertBooks} from '../support/books.ts'
import {EvmWorld, ether, usdc} from '../support/evm/world.ts'
import {faults} from '../support/rpc-proxy.ts'
import {type Expected, ShownWait} from '../support/shown-wait.ts'
import {SolanaWorld, sol} from '../support/solana/world.ts'
import {until} from '../support/until.ts'
import type {Shop} from '../support/world.ts'

const gwei = 10n ** 9n

interface Row extends Expected {
  name: string
  /** Makes the cause. */
  cause(shop: Shop): Promise<void>
  /** Of the request. */
  sweepFirst?: boolean
  token?: 'ETH' | 'USDC'
  /** Makes the cause go away. */
  end(shop: Shop, id: string): Promise<void>
}

// Beside each other: each has a world of its own.
describe('on Ethereum, a payout', {concurrent: true}, () => {
  describe('in turn', {concurrent: false}, onEthereum)
})
describe('on Solana, a payout', {concurrent: true}, () => {
  describe('in turn', {concurrent: false}, onSolana)
})

function onEthereum(): void {
  let world: EvmWorld
  let worker: ChildProcess
  let shown: ShownWait

  beforeAll(async () => {
    world = await EvmWorld.open()
    worker = await world.startWorker()
    shown = await ShownWait.open(world)
  })
  afterAll(async () => {
    await shown?.close()
    await world?.close()
  })

  const withCustody = async (settings: Record<string, string> = {}) => {
    await world.killCustody()
    await world.startCustody({settings})
  }
  const halt = (kind: string) =>
    world.db.rows(`insert into app.incident (chain, kind, subject, details) values ('ETH', $1, $2, '{}')`, [
      kind,
      randomUUID(),
    ])
  const resolve = () =>
    world.db.rows(`update app.incident set resolved_at = now(), resolution = 'kept' where resolved_at is null`)
  const baseFee = (wei: bigint) => {
    world.node.behave = async ({method}, pass) => {
      const response = (await pass()) as object
      return method === 'eth_getBlockByNumber' ? {...response, baseFeePerGas: `0x${wei.toString(16)}`} : response
    }
  }
  const nodeBehaves = async () => {
    world.node.behave = undefined
  }

  const rows: Row[] = [
    {
      name: 'whose address is not on the whitelist',
      cause: shop => world.unlist(shop),
      reason: 'not_whitelisted',
      detail: 'whitelist',
      api: ['address_not_whitelisted', 'the operator has to put the payout address on the whitelist'],
      end: ({id, wallet}) => world.whitelist(id, wallet),
    },
    {
      name: 'above the limit for one',
      cause: () => withCustody({ETH_PAYOUT_LIMIT: 'ETH:0.5'}),
      reason: 'above_limit',
      detail: 'ETH_PAYOUT_LIMIT',
      api: ['limit_reached', 'it would exceed a limit for payouts'],
      async end(_, id) {
        await withCustody()
        await world.retry(id)
      },
    },
    {
      name: 'above the limit for a day',
      cause: () => withCustody({ETH_DAILY_LIMIT: 'ETH:0.5'}),
      reason: 'daily_limit',
      detail: 'ETH_DAILY_LIMIT',
      api: ['limit_reached', 'it would exceed a limit for payouts'],
      async end(_, id) {
        await withCustody()
        await world.retry(id)
      },
    },
    {
      name: 'for which the budget of fees does not suffice',
      cause: () => withCustody({ETH_FEE_BUDGET: '0.000000001'}),
      reason: 'fee_budget_reached',
      detail: 'ETH_FEE_BUDGET',
      api: [
        'fee_budget_reached',
        "the budget for today's network fees is used up; the payout continues tomorrow (UTC) at the latest",
      ],
      async end(_, id) {
        await withCustody()
        await world.retry(id)
      },
    },
    {
      name: 'while custody is down',
      cause: () => world.killCustody(),
      reason: 'custody_unreachable',
      detail: 'custody',
      api: ['custody_unavailable', 'it cannot be signed at the moment'],
      async end() {
        await world.startCustody()
      },
    },
    {
      name: 'while its node is away',
      async cause() {
        world.node.behave = () => faults.status(503)
      },
      reason: 'node_unreachable',
      detail: /^ETH_RPC_URL: the node .*503/,
      api: ['chain_unreachable', 'the chain cannot be reached at the moment'],
      end: nodeBehaves,
    },
    {
      name: 'for which the worker has no node',
      async cause() {
        await world.kill(worker)
        worker = await world.startWorker({settings: {ETH_RPC_URL: ''}})
      },
      reason: 'no_node',
      detail: 'set ETH_RPC_URL for the jobs worker',
      api: ['chain_unreachable', 'the chain cannot be reached at the moment'],
      async end(_, id) {
        await world.kill(worker)
        worker = await world.startWorker()
        await world.retry(id)
      },
    },
    {
      name: 'while the chain asks for more than the cap',
      async cause() {
        baseFee(600n * gwei)
      },
      reason: 'fee_above_cap',
      detail: 'ETH_MAX_FEE_GWEI allows 500',
      api: ['fee_too_high', 'network fees are higher than the most that is paid'],
      end: nodeBehaves,
    },
    {
      name: 'that its recipient refuses',
      async cause({wallet}) {
        await world.anvil.call('anvil_setCode', [wallet, '0x60006000fd'])
      },
      reason: 'destination_not_payable',
      detail: /^the recipient refuses the payment: .*revert/,
      api: ['destination_not_payable', 'nobody can pay the payout address'],
      async end({wallet}) {
        await world.anvil.call('anvil_setCode', [wallet, '0x'])
      },
    },
    {
      name: 'of a token that is paused',
      token: 'USDC',
      cause: () => world.issuer('USDC', 'pause'),
      reason: 'token_refused',
      detail: 'Pausable: paused',
      api: ['token_stopped', 'transfers of the token are refused at the moment, or do not arrive whole'],
      end: () => world.issuer('USDC', 'unpause'),
    },
    {
      name: 'whose sweeps no block takes',
      sweepFirst: true,
      async cause() {
        world.isMining = false
      },
      reason: 'sweeps',
      detail: /^1 of 1 sweeps are not final: of 0x\w{40} since 20/,
      api: null,
      async end() {
        world.isMining = true
      },
    },
  ]

  test.each(rows)(
    '$name is shown to wait for $reason, by everybody, and goes on when that is over',
    async row => {
      const {token = 'ETH'} = row
      const shop = await world.openShop(token, [token === 'ETH' ? ether : 5n * usdc])
      await row.cause(shop)
      const id = await world.request(shop, token, row.sweepFirst)
      await shown.isThis(id, row)
      await row.end(shop, id)
      expect((await world.becomes(id, 'completed')).waiting_reason).toBeNull()
      await assertBooks(world.db)
    },
    150_000,
  )

  test('on a halted chain waits for the operator, whatever it waited for before', async () => {
    const shop = await world.openShop('ETH', [ether], {whitelisted: false})
    const id = await world.request(shop, 'ETH')
    await world.becomes(id, 'not_whitelisted')
    await halt('unknown_transaction')
    await world.retry(id)
    await shown.isThis(id, {
      reason: 'chain_halted',
      detail: /^incident \d+ \(unknown_transaction\): /,
      api: ['chain_halted', 'payouts of this chain are stopped until the operator has checked it'],
    })
    await resolve()
    await world.whitelist(shop.id, shop.wallet)
    await world.retry(id)
    await world.becomes(id, 'completed')
  }, 150_000)

  test('with a sweep that custody does not sign names that, and not the treasury', async () => {
    const shop = await world.openShop('ETH', [20n * ether]) // more than the treasury has
    await world.kill(worker)
    const id = await world.request(shop, 'ETH')
    const doomed = await world.startWorker({crashAt: 'sweep: after begin'})
    await until(async () => doomed.signalCode, {timeoutMs: 20_000, what: 'the worker to die'})
    await world.killCustody()
    worker = await world.startWorker()
    await shown.isThis(id, {
      reason: 'custody_unreachable',
      detail: /^(the sweep of 0x\w{40} waits: )?custody/,
      api: ['custody_unavailable', 'it cannot be signed at the moment'],
    })
    await world.startCustody()
    await world.becomes(id, 'completed')
    await assertBooks(world.db)
  }, 150_000)

  test('that waits for too long fails with what it waited for, and the operator still sees that', async () => {
    const shop = await world.openShop('ETH', [ether])
    baseFee(600n * gwei)
    const id = await world.request(shop, 'ETH')
    await world.becomes(id, 'fee_above_cap')
    await world.db.rows(
      `update app.payout set created_at = now() - interval '73 hours', next_step_at = now() where id = $1`,
      [id],
    )
    const {error_code} = await world.becomes(id, 'failed')
    expect(error_code).toBe('timed_out')
    world.node.behave = undefined
    const [row] = await world.db.rows('select error_message, error_detail from app.payout where id = $1', [id])
    expect(row).toEqual({
      error_message: 'it could not be carried out in time: network fees are higher than the most that is paid',
      error_detail: expect.stringMatching(/^fee_above_cap: .*ETH_MAX_FEE_GWEI allows 500/),
    })
    await world.becomes(await world.request(shop, 'ETH'), 'completed') // its balance is back
    await assertBooks(world.db)
  }, 150_000)
}

function onSolana(): void {
  let world: SolanaWorld
  let shown: ShownWait

  beforeAll(async () => {
    world = await SolanaWorld.open()
    await world.startWorker()
    shown = await ShownWait.open(world)
  })
  afterAll(async () => {
    await shown?.close()
    await world?.close()
  })

  test('while the indexer lags is not called unreachable', async () => {
    const shop = await world.openShop([sol])
    await world.indexer.stop()
    world.solana.mine(100)
    const id = await world.request(shop, 'SOL')
    await shown.isThis(id, {
      reason: 'head_stale',
      detail: 'blocks behind the node',
      api: ['chain_lagging', 'the service has not read the newest blocks of the chain yet'],
    })
    world.indexer.start()
    await world.becomes(id, 'completed')
  }, 150_000)

  test('of less than the rent to an address without an account says so, and fails soon', async () => {
    const shop = await world.openShop([651_000n])
    const id = await world.request(shop, 'SOL')
    await shown.isThis(id, {
      reason: 'below_rent_exempt',
      detail: 'an account takes no less than 650240 lamports',
      api: ['below_rent_exempt', 'the payout address has no account yet, and it is less than an account must hold'],
    })
    const {error_code, error_detail} = (await world.becomes(id, 'failed', 60_000)) as unknown as Record<string, string>
    expect([error_code, error_detail]).toEqual(['below_rent_exempt', null])
  }, 150_000)

  test('whose transaction expired says at once what the indexer lacks to prove that', async () => {
    const shop = await world.openShop([sol])
    world.isHeld = true
    const id = await world.request(shop, 'SOL')
    await world.signed(id, 1)
    world.lie('getSignatureStatuses', async pass => {
      const answered = (await pass()) as {value: unknown[]}
      return {...answered, value: [{slot: 1, err: null, confirmationStatus: 'finalized'}, ...answered.value.slice(1)]}
    })
    world.mineEmpty(170)
    await shown.isThis(id, {
      reason: 'unproven_expiry',
      detail: /^transaction \w+ has expired, and it is not proven that no block holds it: a node knows the transaction/,
      api: ['unproven_expiry', 'its transaction has expired, and it is not certain yet that no block holds it'],
    })
    world.node.behave = undefined
    world.isHeld = false
    await world.becomes(id, 'completed', 60_000)
    await assertBooks(world.db)
  }, 150_000)
}
