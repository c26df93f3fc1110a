// One jobs worker: graphile-worker's tasks (webhooks, payouts), the webhook dispatcher and the tick. It lives as long
// as its liveness connection. Promises: several workers may run. If one dies, others take over what it held within
// three seconds.
import {Logger as GraphileLogger, makeWorkerUtils, type Runner, run, type WorkerEvents} from 'graphile-worker'
import type pg from 'pg'
import type {Logger} from '../base/log.ts'
import type {Settings} from '../chains/settings.ts'
import {connections} from '../db/client/connections.ts'
import {inWords} from '../db/client/failure.ts'
import type {Outage} from '../db/client/outage.ts'
import {openPool} from '../db/client/pool.ts'
import type {Ends} from '../db/client/run-process.ts'
import {readTokens} from '../db/client/tokens.ts'
import {requireSameAssets} from '../db/migrate/assets.ts'
import {type DailyAudit, openDailyAudit} from './audit/daily.ts'
import {believeNoMessage} from './breaking-migrations.ts'
import {holdLiveness, type Liveness} from './liveness.ts'
import {countJobs} from './metrics.ts'
import {advancePayout} from './payouts/advance-payout.ts'
import {allocateDeposits} from './payouts/allocate-deposits.ts'
import {retryBlocked} from './payouts/blocked-addresses.ts'
import {collect} from './payouts/collect.ts'
import type {Context} from './payouts/context.ts'
import {closeContext, openContext} from './payouts/open-context.ts'
import {carryOutReturns} from './payouts/returns.ts'
import {sendTransactions} from './payouts/send-transactions.ts'
import {lookAtTokenCode} from './payouts/token-code.ts'
import {type AnalyticsRefresh, analyticsRefresh} from './refresh-analytics.ts'
import {watchTaking} from './taking-jobs.ts'
import {startTick} from './tick.ts'
import {type Dispatcher, startDispatcher} from './webhooks/dispatcher.ts'
import {failAll, failUndeliverable} from './webhooks/fail-undeliverable.ts'
import {maintainPartitions} from './webhooks/partitions.ts'
import {openSender} from './webhooks/send.ts'
import {sequenceEvents} from './webhooks/sequence-events.ts'
import {channel, type Sequencer, startSequencer} from './webhooks/sequencer.ts'

const foldBatch = 20_000
/** Small, because a payment whose deposits are derived at the same time waits for the whole batch. */
const expiryBatch = 100
const stopGraceMs = 1500

export interface WorkerOptions {
  /** URL of the role sluice_jobs. */
  databaseUrl: string
  settings: Settings
  log: Logger
  /** Each must end the process: others are taking over what this worker holds. */
  ends: Ends
}

export interface Worker {
  /** Stops within 5 seconds; current work is finished or left for another worker. */
  stop(): Promise<void>
}

export async function startWorker({databaseUrl, settings, log, ends}: WorkerOptions): Promise<Worker> {
  const liveness = await holdLiveness({url: databaseUrl, log, ends})
  const pool = openPool(databaseUrl, {name: 'sluice-jobs', max: connections.sluice_jobs.pool, log})
  pool.on('connect', client => client.on('error', () => {})) // while in use, the failing query reports the error
  await requireSameAssets(pool, settings.chains.values())
  await readTokens(pool, settings.chains)
  const sequencer = startSequencer(pool)
  const dispatcher = startDispatcher({
    locks: liveness.client,
    pool,
    sender: openSender({allowPrivate: settings.webhookAllowPrivate}),
    log,
  })
  liveness.client.on('notification', () => {
    dispatcher.pass().catch(error => log.error({error: inWords(error)}, 'webhooks: a pass failed'))
  })
  await liveness.client.query(`listen ${channel}`)
  const payouts = await openContext(settings, pool, log)
  const isOutdated = () => ends.startAgain('the tables of graphile-worker are newer than this worker')
  const events = await believeNoMessage(pool, isOutdated, log)
  watchTaking(events, ends.startAgain)
  const runner = await startRunner({pool, sequencer, liveness, payouts, events, log})
  let isStopping = false
  runner.promise.then(
    () => isStopping || ends.startAgain('graphile-worker ended, and said why'),
    error => isStopping || ends.fail(error),
  )
  const analytics = analyticsRefresh(databaseUrl)
  const daily = openDailyAudit({databaseUrl, pool, settings, log})
  const stopTick = await startParts({
    pool,
    sequencer,
    dispatcher,
    liveness,
    payouts,
    analytics,
    daily,
    settings,
    log,
    outage: ends.outage,
  })
  return {
    stop: async () => {
      isStopping = true
      // A hanging node or custody must not keep the worker from ending; another worker repeats the request.
      const cut = setTimeout(closeContext, stopGraceMs, payouts)
      daily.stop()
      analytics.stop()
      await Promise.all([runner.stop(), dispatcher.stop(), stopTick()])
      clearTimeout(cut)
      await closeContext(payouts)
      await liveness.release()
      await pool.end()
    },
  }
}

interface Parts {
  pool: pg.Pool
  sequencer: Sequencer
  dispatcher: Dispatcher
  liveness: Liveness
  payouts: Context
  analytics: AnalyticsRefresh
  daily: DailyAudit
  settings: Settings
  log: Logger
  outage: Outage
}

type Tasks = Pick<Parts, 'pool' | 'sequencer' | 'liveness' | 'payouts' | 'log'> & {events: WorkerEvents}

function startRunner({pool, sequencer, liveness, payouts, events, log}: Tasks): Promise<Runner> {
  const itsLog = log.child({library: 'graphile-worker'})
  const levels = {error: 'error', warning: 'warn', info: 'debug', debug: 'trace'} as const
  return run({
    pgPool: pool,
    taskList: countJobs({
      deliver_webhooks: sequenceEvents(sequencer), // jobs that were queued under this name before an upgrade
      sequence_events: sequenceEvents(sequencer),
      fail_undeliverable: failUndeliverable(pool),
      advance_payout: advancePayout(payouts),
      send_transactions: sendTransactions(payouts),
      allocate_deposits: allocateDeposits(pool),
    }),
    logger: new GraphileLogger(() => (level, message) => itsLog[levels[level]](message)),
    noHandleSignals: true,
    events,
    preset: {
      plugins: [liveness.plugin],
      // New jobs are announced; only failed ones that are tried again wait for a poll, of each of the ten.
      worker: {concurrentJobs: 10, pollInterval: 5000, gracefulShutdownAbortTimeout: 1000},
    },
  })
}

async function startParts(parts: Parts): Promise<() => Promise<void>> {
  const {pool, sequencer, dispatcher, liveness, payouts, analytics, daily, settings, log, outage} = parts
  const {deliveryRetentionDays} = settings
  const utils = await makeWorkerUtils({pgPool: pool, logger: new GraphileLogger(() => () => {})})
  const second = 1000
  const minute = 60 * second
  const hour = 60 * minute
  const stop = startTick(
    [
      {name: 'recover dead workers', intervalMs: second, run: liveness.beat},
      {name: 'sequence events', intervalMs: 5 * second, run: sequencer.run}, // those whose job was lost
      {name: 'find due webhooks', intervalMs: second, run: dispatcher.pass},
      {name: 'read tokens', intervalMs: 5 * second, run: () => readTokens(pool, settings.chains)},
      {name: 'wake payouts', intervalMs: second, run: () => wakeDue(pool)},
      {name: 'carry out returns', intervalMs: 3 * second, run: () => carryOutReturns(payouts)},
      ...[...payouts.chains.keys()].map(chain => {
        return {name: `collect addresses of ${chain}`, intervalMs: 10 * second, run: () => collect(payouts, chain)}
      }),
      {name: 'retry blocked addresses', intervalMs: 10 * second, run: () => retryBlocked(payouts)},
      {name: 'look at the code of tokens', intervalMs: hour, run: () => lookAtTokenCode(payouts)},
      {name: 'fold balances', intervalMs: 5 * second, run: () => workOff(pool, 'app.fold_balances', foldBatch)},
      {name: 'fold totals', intervalMs: 5 * second, run: () => workOff(pool, 'app.fold_totals', foldBatch)},
      {
        name: 'expire payment requests',
        intervalMs: second,
        run: () => workOff(pool, 'app.decide_payment_requests', expiryBatch),
      },
      {
        name: 'give up deposits that were not read again',
        intervalMs: 10 * second,
        run: () => pool.query('select chain.release_overdue()'),
      },
      {name: 'fail undeliverable webhooks', intervalMs: minute, run: () => failAll(pool)},
      {name: 'keep deliveries', intervalMs: hour, run: () => maintainPartitions(pool, deliveryRetentionDays, log)},
      {name: 'refresh analytics', intervalMs: minute / 2, run: analytics.run},
      {name: 'audit', intervalMs: minute, run: daily.run},
      {name: 'delete failed jobs', intervalMs: minute, run: () => utils.cleanup({tasks: ['DELETE_PERMAFAILED_JOBS']})},
    ],
    {log, outage},
  )
  return async () => {
    await stop()
    await utils.release()
  }
}

/** Calls a function that handles a batch and returns its size, until a batch is not full. */
async function workOff(
  pool: pg.Pool,
  batches: 'app.fold_balances' | 'app.fold_totals' | 'app.decide_payment_requests',
  size: number,
) {
  for (;;) {
    const {rows} = await pool.query<{done: number}>(`select ${batches}($1) as done`, [size])
    if (rows[0]!.done < size) return
  }
}

/** Adds the jobs that are due, each in a separate transaction (app.due_job says why). */
async function wakeDue(pool: pg.Pool): Promise<void> {
  const {rows} = await pool.query<{task: string; payload: object; key: string}>({
    name: 'due_jobs',
    text: 'select task, payload, key from app.due_job',
  })
  for (const {task, payload, key} of rows) await pool.query('select app.enqueue($1, $2, $3)', [task, payload, key])
}
