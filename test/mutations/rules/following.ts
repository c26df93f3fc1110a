// Following a chain, on any family: links, finality, where it begins, and reading it again.
import type {Mutation} from '../mutation.ts'

export const following: Mutation[] = [
  {
    rule: 'Blocks of a list are taken as far as they link',
    file: 'indexers/follow.ts',
    from: '(block, i) => block.parentHash !== parents[i]!.hash || block.height <= parents[i]!.height,',
    to: '(block, i) => block.height <= parents[i]!.height,',
    tests: ['indexers/follow-round.test.ts', 'indexers/follow.test.ts'],
  },
  {
    rule: 'A replacement ends no lower than what it replaces',
    file: 'indexers/follow.ts',
    from: 'if (!blocks.length || (next.at(-1)!.height < this.tip!.height && blocks.length < storeLimit)) return false',
    to: 'if (!blocks.length) return false',
    tests: ['indexers/follow-round.test.ts', 'indexers/follow.test.ts'],
  },
  {
    rule: 'A final block stays',
    file: 'indexers/follow.ts',
    from: `    this.#assertFollows(next, at)
`,
    to: '',
    tests: ['indexers/follow-round.test.ts', 'indexers/follow.test.ts'],
  },
  {
    rule: 'What the source learns late is written again',
    file: 'indexers/follow.ts',
    from: `    if (this.#invalidatedHeight <= this.#tracked[0]!.height) return this.#writeLate(this.#invalidatedHeight)
`,
    to: '',
    tests: ['indexers/follow-round.test.ts', 'indexers/follow.test.ts'],
  },
  {
    rule: 'A head at the same height with another hash is another block',
    file: 'indexers/follow.ts',
    from: '(head.height === tip.height && head.hash === tip.hash)',
    to: 'head.height === tip.height',
    tests: ['indexers/follow-round.test.ts', 'indexers/follow.test.ts'],
  },
  {
    rule: 'A block on another parent begins a replacement',
    file: 'indexers/follow.ts',
    from: 'if (blocks.length && blocks[0]!.parentHash !== tip.hash) return this.#replacement(base)',
    to: '',
    tests: ['indexers/follow-round.test.ts', 'indexers/follow.test.ts'],
  },
  {
    rule: 'A height that the source cannot show buries nothing',
    file: 'indexers/follow.ts',
    from: '    return (await this.#options.source.hashAt(head.height)) === head.hash ? head.height : top.height',
    to: '    return head.height',
    tests: ['indexers/follow-round.test.ts', 'indexers/follow.test.ts'],
  },
  {
    rule: 'No block is read from another network',
    file: 'indexers/follow.ts',
    from: 'if (responded !== network) throw new CannotFollow(`the node is on',
    to: 'if (false) throw new CannotFollow(`the node is on',
    tests: ['indexers/follow-round.test.ts', 'indexers/follow.test.ts'],
  },
  {
    rule: 'Late writing takes only the blocks that are stored',
    file: 'indexers/follow.ts',
    from: 'const same = linked(base!, blocks).filter(({hash}, i) => hash === stored[i]?.hash)',
    to: 'const same = linked(base!, blocks)',
    tests: ['indexers/follow-round.test.ts', 'indexers/follow.test.ts'],
  },
  {
    rule: 'A block is final only with its confirmations on our own chain',
    file: 'indexers/finality.ts',
    from: 'const confirmed = at.headHeight - source.confirmations + 1',
    to: 'const confirmed = at.headHeight',
    tests: ['indexers/finality.test.ts', 'test/faults/finality.test.ts'],
  },
  {
    rule: 'A final height that is far too high makes nothing final',
    file: 'indexers/finality.ts',
    from: '  if ((await source.hashAt(final.height)) !== final.hash) return // otherwise',
    to: '  // otherwise',
    tests: ['indexers/finality.test.ts'],
  },
  {
    rule: 'A buried block is final only if the node has it, too',
    file: 'indexers/finality.ts',
    from: 'if ((await source.hashAt(buried.height)) === buried.hash) await cursor',
    to: 'await cursor',
    tests: ['indexers/finality.test.ts'],
  },
  {
    rule: 'A node on another chain is noticed',
    file: 'indexers/watch.ts',
    from: 'if (forks >= threshold) return "the final',
    to: 'if (false) return "the final',
    tests: ['test/faults/finality.test.ts'],
  },
  {
    rule: 'A single other answer is no fork',
    file: 'indexers/watch.ts',
    from: "forks = typeof seen === 'object' ? forks + 1 : 0",
    to: "forks = typeof seen === 'object' ? threshold : 0",
    tests: ['test/faults/finality.test.ts'],
  },
  {
    rule: 'A main network is refused without permission',
    file: 'indexers/resume.ts',
    from: 'if (!mainnet && isMainNetwork(responded)) {',
    to: 'if (false) {',
    tests: ['indexers/follow-round.test.ts', 'indexers/resume.test.ts'],
  },
  {
    rule: 'Another network is refused',
    file: 'indexers/resume.ts',
    from: '  if (responded !== network) {',
    to: '  if (false) {',
    tests: ['indexers/follow-round.test.ts', 'indexers/resume.test.ts'],
  },
  {
    rule: 'A database of another network is refused',
    file: 'indexers/resume.ts',
    from: 'if (at.network !== network) {',
    to: 'if (false) {',
    tests: ['indexers/follow-round.test.ts', 'indexers/resume.test.ts'],
  },
  {
    rule: 'A fork below the final block halts the chain',
    file: 'indexers/resume.ts',
    from: 'await cursor.halt(verdict.details)',
    to: "await cursor.rewind({height: verdict.height, hash: ''})",
    tests: ['indexers/follow-round.test.ts', 'test/faults/finality.test.ts'],
  },
  {
    rule: 'One observation halts nothing',
    file: 'indexers/resume.ts',
    from: "verdict.kind === 'fork_below_final' && observations.count >= threshold",
    to: "verdict.kind === 'fork_below_final'",
    tests: ['indexers/follow-round.test.ts', 'test/faults/finality.test.ts'],
  },
  {
    rule: 'One observation rewinds nothing',
    file: 'indexers/resume.ts',
    from: "(verdict.kind === 'rewind' && observations.count >= threshold)",
    to: "verdict.kind === 'rewind'",
    tests: ['indexers/follow-round.test.ts', 'test/faults/finality.test.ts'],
  },
  {
    rule: 'A halted chain waits for an operator',
    file: 'indexers/resume.ts',
    from: `  if (at.halted !== null)
`,
    to: `  if (false)
`,
    tests: ['indexers/follow-round.test.ts', 'test/faults/finality.test.ts'],
  },
  {
    rule: 'A rewind goes to a block that the node has, too',
    file: 'indexers/resume.ts',
    from: '  if (ours !== undefined && ours !== block.hash) {',
    to: '  if (false) {',
    tests: ['indexers/follow-round.test.ts', 'test/faults/finality.test.ts'],
  },
  {
    rule: 'A chain is followed from below the first address',
    file: 'indexers/start.ts',
    from: 'if (startHeight - 1 <= start) return startHeight - 1',
    to: 'if (startHeight > 0) return startHeight - 1',
    tests: ['indexers/start.test.ts'],
  },
  {
    rule: 'Of an older seed it is not known where to begin',
    file: 'indexers/start.ts',
    from: `  if (at === Number.NEGATIVE_INFINITY)
`,
    to: `  if (false)
`,
    tests: ['indexers/start.test.ts'],
  },
  {
    rule: 'Addresses are made before a chain is followed',
    file: 'indexers/start.ts',
    from: `  if (at === undefined)
`,
    to: `  if (false)
`,
    tests: ['indexers/start.test.ts'],
  },
  {
    rule: 'It begins with a margin before the first address',
    file: 'indexers/start.ts',
    from: 'newestBefore(medianTime, top, at - marginMs)',
    to: 'newestBefore(medianTime, top, at)',
    tests: ['indexers/start.test.ts'],
  },
  {
    rule: 'Where single times may fall, medians are compared',
    file: 'indexers/start.ts',
    from: 'Math.max(found.height - medianOf + 1, 0)',
    to: 'found.height',
    tests: ['indexers/start.test.ts'],
  },
  {
    rule: 'It does not begin with a block that the node lacks',
    file: 'indexers/start.ts',
    from: `  if (why !== undefined) throw missing(chain, first, why, needed)
`,
    to: '',
    tests: ['indexers/start.test.ts'],
  },
  {
    rule: 'No batch is written that does not link',
    file: 'indexers/match.ts',
    from: `  assertLinked(blocks, found.parentHash)
`,
    to: '',
    tests: ['indexers/match.test.ts', 'indexers/start.test.ts', 'indexers/follow.test.ts'],
  },
  {
    rule: 'A payment succeeded only if it moved what it was signed for',
    file: 'indexers/confirmed-txs.ts',
    from: 'const success = executed && (!purpose || moved !== undefined)',
    to: 'const success = executed',
    tests: ['indexers/match.test.ts', 'test/faults/confirmed-transactions.test.ts'],
  },
  {
    rule: 'A failed transaction is no success',
    file: 'indexers/confirmed-txs.ts',
    from: 'const success = executed && (',
    to: 'const success = (',
    tests: ['indexers/match.test.ts', 'test/faults/confirmed-transactions.test.ts'],
  },
  {
    rule: 'A transfer to another recipient fulfils nothing',
    file: 'indexers/confirmed-txs.ts',
    from: `        display(transfer.sender) === source &&
        display(transfer.recipientKey) === recipient,`,
    to: '        display(transfer.sender) === source,',
    tests: ['indexers/match.test.ts', 'test/faults/confirmed-transactions.test.ts'],
  },
  {
    rule: 'A transfer of another amount fulfils nothing',
    file: 'indexers/confirmed-txs.ts',
    from: `        (transfer.amount === BigInt(amount) ||
          (transfer.kind === 'token' && isMost(transfer.amount, BigInt(amount)))) &&
`,
    to: '',
    tests: ['indexers/match.test.ts', 'test/faults/confirmed-transactions.test.ts'],
  },
  {
    rule: 'A transfer of another token fulfils nothing',
    file: 'indexers/confirmed-txs.ts',
    from: `      transfer.token === token &&
`,
    to: '',
    tests: ['indexers/match.test.ts', 'test/faults/confirmed-transactions.test.ts'],
  },
  {
    rule: 'A fee is known only if all inputs are ours',
    file: 'indexers/confirmed-txs.ts',
    from: 'ours.length === outpoints.length ? brought - outputSum : 0n',
    to: 'brought - outputSum',
    tests: ['indexers/match.test.ts'],
  },
  {
    rule: 'One process reads a chain again',
    file: 'indexers/reindex.ts',
    from: `  if (!rows[0]!.held)
`,
    to: `  if (false)
`,
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'Only blocks that lead to our final block are read',
    file: 'indexers/reindex.ts',
    from: '          (hashes.count === 0 || hashes.has(final.height, final.hash))',
    to: '          true',
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'Each block is that of the linked chain',
    file: 'indexers/reindex.ts',
    from: 'if (block.height !== height || !hashes.has(height, block.hash))',
    to: 'if (block.height !== height)',
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'What would be deleted or changed is read twice',
    file: 'indexers/reindex.ts',
    from: 'for (const block of blocks) if (doubtful.includes(block.height)) await this.#confirm(block)',
    to: '',
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'Two reads must agree',
    file: 'indexers/reindex.ts',
    from: `    if (contentsOf(again) !== contentsOf(block))
`,
    to: `    if (false)
`,
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'Nothing is deleted unless it was read twice',
    file: 'indexers/reindex/write.ts',
    from: '    if (doubtful.length) {',
    to: '    if (false) {',
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'A token that the settings lack does not make its deposits disappear',
    file: 'indexers/reindex/write.ts',
    from: `    if (before.isForgotten)
`,
    to: `    if (false)
`,
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'A token that was added to the settings credits nothing',
    file: 'indexers/reindex/write.ts',
    from: 'if (before.isAdded || source.tokens?.get(before.token) === row.token) return {...row, token: before.token}',
    to: 'if (before.isAdded || source.tokens?.get(before.token) === row.token) return row',
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'Nothing is written while the chain is halted',
    file: 'indexers/reindex/anchor.ts',
    from: '  if (halted !== null) throw',
    to: '  if (false) throw',
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'Nothing is written while a rewind is due',
    file: 'indexers/reindex/anchor.ts',
    from: `  if (rewind)
`,
    to: `  if (false)
`,
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'Nothing is written after a rewind below the anchor',
    file: 'indexers/reindex/anchor.ts',
    from: 'if (at!.height < this.final.height || ours?.hash !== this.final.hash)',
    to: 'if (false)',
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'A node of another network is not read',
    file: 'indexers/reindex/anchor.ts',
    from: `  if (responded !== network)
`,
    to: `  if (false)
`,
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'A node with another final block is not read',
    file: 'indexers/reindex/anchor.ts',
    from: `  if (hash !== final.hash)
`,
    to: `  if (false)
`,
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'Blocks that do not link are refused',
    file: 'indexers/reindex/hashes.ts',
    from: '(this.#last !== undefined && parentHash !== this.#last)',
    to: 'false',
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts'],
  },
  {
    rule: 'Only final blocks are read again',
    file: 'indexers/reindex/runs.ts',
    from: `  if (to > final)
`,
    to: `  if (false)
`,
    tests: ['indexers/reindex.test.ts', 'test/faults/reindex.test.ts', 'cli/reindex.test.ts'],
  },
]
