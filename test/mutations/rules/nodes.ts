// What nodes that nobody here wrote say and refuse, and what their networks ask for.
import type {Mutation} from '../mutation.ts'

const rpc = 'chains/evm/rpc.ts'
const rpcTests = ['chains/evm/rpc.test.ts', 'chains/evm/rpc-refusals.test.ts']
const locks = ['db/privileges.test.ts']

export const nodes: Mutation[] = [
  {
    rule: "The chain's own log of a transfer is no second deposit",
    file: 'indexers/evm/transfers.ts',
    from: 'if (contract === systemAddress) return',
    to: 'if (contract === transferTopic) return',
    tests: ['indexers/evm/transfers.test.ts'],
  },
  {
    rule: 'A batch with too many calls is asked in halves',
    file: rpc,
    from: `if (meaning !== 'batch_too_large' && meaning`,
    to: 'if (meaning',
    tests: rpcTests,
  },
  {
    rule: 'Responses that are too large together are asked for in halves',
    file: rpc,
    from: ` && meaning !== 'response_too_large' && !isPatient`,
    to: ' && !isPatient',
    tests: rpcTests,
  },
  {
    rule: 'A limit on calls is remembered',
    file: rpc,
    from: 'this.#most = Math.min(this.#most, half)',
    to: 'this.#most = Math.max(this.#most, half)',
    tests: rpcTests,
  },
  {
    rule: 'One error in place of a batch is the answer to each of its calls',
    file: rpc,
    from: 'return spread(request.body, await handle(request, response))',
    to: 'return await handle(request, response)',
    tests: rpcTests,
  },
  {
    rule: 'A refusal without an id ends the batches under way',
    file: rpc,
    from: 'return call.handle && (!its || call.handle === its)',
    to: 'return call.handle && call.handle === its',
    tests: rpcTests,
  },
  {
    rule: 'What a node refuses is what the chain waits for',
    file: 'indexers/evm/refusals.ts',
    from: 'const {reason, advice} = (meaning && advices[meaning]) ?? unknown',
    to: 'const {reason, advice} = unknown',
    tests: ['indexers/evm/node.test.ts', 'test/faults/refusals.test.ts'],
  },
  {
    rule: 'Having had too many requests is no refusal',
    file: 'indexers/evm/refusals.ts',
    from: `if (meaning === 'too_many_requests') return`,
    to: `if (meaning === 'blocks_pruned') return`,
    tests: ['indexers/evm/node.test.ts', 'test/faults/refusals.test.ts'],
  },
  {
    rule: 'While it is known what a chain waits for, nothing starts anew',
    file: 'indexers/watch.ts',
    from: `Math.min(Date.now() - movedAt, cursor.waits.silentMs('reading'))`,
    to: 'Date.now() - movedAt',
    tests: ['test/faults/refusals.test.ts'],
  },
  {
    rule: 'A node that fell below the final block is waited for in words',
    file: 'indexers/watch.ts',
    from: 'if (behind >= threshold) await',
    to: 'if (behind < 0) await',
    tests: ['test/faults/refusals.test.ts', 'test/faults/finality.test.ts'],
  },
  {
    rule: 'The tip is what blocks with transactions paid',
    file: 'jobs/payouts/evm/fees.ts',
    from: 'sorted[Math.floor(sorted.length / 2)] ?? 0n',
    to: 'sorted.at(-1) ?? 0n',
    tests: ['jobs/payouts/evm/fees.test.ts'],
  },
  {
    rule: 'A gas limit has room above the estimate',
    file: 'jobs/payouts/evm/fees.ts',
    from: 'return (estimate * (100n + percent)) / 100n',
    to: 'return estimate',
    tests: ['jobs/payouts/evm/fees.test.ts'],
  },
  {
    rule: 'The price is lower where a payment needs much gas',
    file: 'jobs/payouts/evm/fees.ts',
    from: 'least(cap, fee / gasLimit)',
    to: 'cap',
    tests: ['jobs/payouts/evm/fees.test.ts'],
  },
  {
    rule: "A payment may use a contract's gas, but cost no more than the limit",
    file: 'custody/evm/judge.ts',
    from: 'if (fee > maxPaymentFee)',
    to: 'if (fee > maxPaymentFee * 1000n)',
    tests: ['custody/evm/judge.test.ts'],
  },
  {
    rule: 'A transaction that the node has is no failure to send it',
    file: 'jobs/payouts/evm/node.ts',
    from: `meaningOf(response) === 'already_known' ? undefined : wordsOf(response)`,
    to: 'wordsOf(response)',
    tests: ['jobs/payouts/evm/node.test.ts'],
  },
  {
    rule: 'A node that hides what contracts pay is told of',
    file: 'indexers/tron/internal-transactions.ts',
    from: 'if (seen.calls >= enoughCalls) return {...seen, shows: false}',
    to: 'if (seen.calls >= enoughCalls) return seen',
    tests: ['indexers/tron/internal-transactions.test.ts'],
  },
  {
    rule: 'A call that failed says nothing about a node',
    file: 'indexers/tron/internal-transactions.ts',
    from: 'return info && isExecuted(transaction, info) && bringsCoins(transaction)',
    to: 'return info && bringsCoins(transaction)',
    tests: ['indexers/tron/internal-transactions.test.ts'],
  },
  {
    rule: 'No role takes a lock of its own choice',
    file: 'db/tables/014_locks.sql',
    from: ' from sluice_indexer, sluice_api, sluice_jobs, sluice_custody',
    to: ' from sluice_indexer',
    tests: locks,
  },
  {
    rule: "What custody's journal has is not unknown",
    file: 'db/functions/chains/note_confirmed_txs.sql',
    from: 'where j.stream = i.chain and j.txid = i.txid',
    to: 'where false',
    tests: ['db/second-payments.test.ts'],
  },
]
