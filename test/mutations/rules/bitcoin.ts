// Bitcoin: proofs of what is in a block, and what custody signs with outputs.
import type {Mutation} from '../mutation.ts'

export const bitcoin: Mutation[] = [
  {
    rule: 'What a history names must exist',
    file: 'indexers/bitcoin/electrum-transactions.ts',
    from: '  if (!transaction) throw new Contradiction',
    to: `  if (!transaction) return
  if (false) throw new Contradiction`,
    tests: ['indexers/bitcoin/electrum-source.test.ts'],
  },
  {
    rule: 'What is in a block has a proof',
    file: 'indexers/bitcoin/electrum-transactions.ts',
    from: '    assertInBlock(transaction, {siblings: proof.merkle, position: proof.pos}, merkleRoot)',
    to: '',
    tests: ['indexers/bitcoin/electrum-source.test.ts'],
  },
  {
    rule: "A list of a block's transactions has its root",
    file: 'indexers/bitcoin/electrum-transactions.ts',
    from: `      assertContents(txids, first.transaction, header)
`,
    to: '',
    tests: ['indexers/bitcoin/electrum-source.test.ts'],
  },
  {
    rule: 'A refusal is not an absence',
    file: 'indexers/bitcoin/electrum-transactions.ts',
    from: '&& saysNone.test(responses[i].message))',
    to: ')',
    tests: ['indexers/bitcoin/electrum-source.test.ts'],
  },
  {
    rule: 'A history has the status that the server gave',
    file: 'indexers/bitcoin/electrum-histories.ts',
    from: '} else if (statusOf(history) !== statuses.get(scripthash)) doubtful.push(scripthash)',
    to: '} else if (false) doubtful.push(scripthash)',
    tests: ['indexers/bitcoin/electrum-source.test.ts'],
  },
  {
    rule: 'Statuses are asked for again',
    file: 'indexers/bitcoin/electrum-histories.ts',
    from: '    await this.#electrum.subscribeScripthashes(this.#nextToAskAgain())',
    to: '',
    tests: ['indexers/bitcoin/electrum-source.test.ts'],
  },
  {
    rule: 'Histories are read again after a reorganisation',
    file: 'indexers/bitcoin/electrum-histories.ts',
    from: '      if (history.some(({height}) => height > fork)) this.#outdated.add(scripthash)',
    to: '',
    tests: ['indexers/bitcoin/electrum-source.test.ts'],
  },
  {
    rule: 'Headers link to what is stored',
    file: 'indexers/bitcoin/headers.ts',
    from: `    if (headers[0]?.parentHash !== this.top.hash) return false
`,
    to: '',
    tests: ['indexers/bitcoin/headers.test.ts'],
  },
  {
    rule: 'Headers link to each other',
    file: 'indexers/bitcoin/headers.ts',
    from: 'if (headers[i]!.parentHash !== headers[i - 1]!.hash) throw',
    to: 'if (false) throw',
    tests: ['indexers/bitcoin/headers.test.ts'],
  },
  {
    rule: 'Headers have their proof of work',
    file: 'indexers/bitcoin/headers.ts',
    from: `    for (const header of headers) assertWork(header, this.#easiestBits)
`,
    to: '',
    tests: ['indexers/bitcoin/headers.test.ts'],
  },
  {
    rule: 'What is found late is written again',
    file: 'indexers/bitcoin/electrum-source.ts',
    from: `      if (!readsAgainAbove) await this.#findLate(changed)
`,
    to: '',
    tests: ['indexers/bitcoin/electrum-source.test.ts'],
  },
  {
    rule: 'A stored payment stays while nothing proves that it left',
    file: 'indexers/bitcoin/electrum-source.ts',
    from: `      claims.get(height)!.add(txid)
    return claims`,
    to: `      void txid
    return claims`,
    tests: ['indexers/bitcoin/electrum-source.test.ts'],
  },
  {
    rule: 'New addresses are subscribed before anything else is asked',
    file: 'indexers/bitcoin/electrum-source.ts',
    from: `      await this.#histories.subscribe(await addresses.take())
      await this.#headers.poll(fork => this.#histories.outdateAbove(fork))
      const changed = await this.#histories.poll()`,
    to: `      await this.#headers.poll(fork => this.#histories.outdateAbove(fork))
      const changed = await this.#histories.poll()
      await this.#histories.subscribe(await addresses.take())`,
    tests: ['indexers/bitcoin/electrum-source.test.ts'],
  },
  {
    rule: 'What is in a block that is not written yet is not absent',
    file: 'indexers/bitcoin/electrum-source.ts',
    from: 'none.has(txid) && height <= 0)',
    to: 'none.has(txid))',
    tests: ['indexers/bitcoin/electrum-source.test.ts'],
  },
  {
    rule: 'An unconfirmed transaction has the id that it was asked for by',
    file: 'indexers/bitcoin/node-source.ts',
    from: `      if (transaction.txid !== txids[i])
`,
    to: `      if (false)
`,
    tests: ['indexers/bitcoin/senders.test.ts'],
  },
  {
    rule: 'Unconfirmed payments are written only with the block that they were read with',
    file: 'indexers/bitcoin/unconfirmed.ts',
    from: '  if (unconfirmed.head !== (await cursor.read())?.headHash) return\n',
    to: '',
    tests: ['indexers/bitcoin/unconfirmed.test.ts'],
  },
  {
    rule: 'An output serves one purpose',
    file: 'custody/bitcoin/plan.ts',
    from: "if (attempts.some(({subjectId: other, fate}) => other !== subjectId && (fate === 'open' || fate === 'in_block')))",
    to: 'if (false)',
    tests: ['custody/bitcoin/plan.test.ts', 'test/faults/attacker.test.ts'],
  },
  {
    rule: 'A replacement keeps all inputs',
    file: 'custody/bitcoin/plan.ts',
    from: `  if (newest) checkInputsKept(newest, asked)
`,
    to: '',
    tests: ['custody/bitcoin/plan.test.ts', 'test/faults/attacker.test.ts'],
  },
  {
    rule: 'The first input is the one that the payment was begun with',
    file: 'custody/bitcoin/plan.ts',
    from: 'if (outgoingPayment.firstInput !== asked.inputs[0])',
    to: 'if (false)',
    tests: ['custody/bitcoin/plan.test.ts', 'test/faults/attacker.test.ts'],
  },
  {
    rule: 'Only outputs that are reserved are spent',
    file: 'custody/bitcoin/outputs.ts',
    from: '  if (foreign) throw',
    to: '  if (false) throw',
    tests: ['custody/bitcoin/plan.test.ts', 'test/faults/attacker.test.ts'],
  },
  {
    rule: 'No output is spent that a final transaction spent',
    file: 'custody/bitcoin/outputs.ts',
    from: '  if (spent) throw',
    to: '  if (false) throw',
    tests: ['custody/bitcoin/plan.test.ts', 'test/faults/attacker.test.ts'],
  },
  {
    rule: 'Only final outputs are spent',
    file: 'custody/bitcoin/outputs.ts',
    from: `t.token = $3 and t.block_height <= c.final_height
      join custody`,
    to: `t.token = $3
      join custody`,
    tests: ['custody/bitcoin/plan.test.ts', 'test/faults/attacker.test.ts'],
  },
  {
    rule: "No merchant's money pays for another",
    file: 'custody/bitcoin/outputs.ts',
    from: "    } else if (kind === 'withdraw')",
    to: `    } else if (kind !== 'withdraw') {
      continue
    } else if (kind === 'withdraw')`,
    tests: ['custody/bitcoin/plan.test.ts', 'test/faults/attacker.test.ts'],
  },
  {
    rule: "A withdrawal spends the treasury's outputs only",
    file: 'custody/bitcoin/outputs.ts',
    from: "    } else if (kind === 'withdraw')",
    to: `    } else if (kind === 'withdraw') continue
    else if (false)`,
    tests: ['custody/bitcoin/plan.test.ts', 'test/faults/attacker.test.ts'],
  },
  {
    rule: "A sweep spends merchants' outputs only",
    file: 'custody/bitcoin/outputs.ts',
    from: `      if (kind === 'sweep')
        throw`,
    to: `      if (false)
        throw`,
    tests: ['custody/bitcoin/plan.test.ts', 'test/faults/attacker.test.ts'],
  },
  {
    rule: 'The fee stays below the cap',
    file: 'custody/bitcoin/plan.ts',
    from: `  if (fee > cap)
`,
    to: `  if (false)
`,
    tests: ['custody/bitcoin/plan.test.ts', 'test/faults/attacker.test.ts'],
  },
  {
    rule: 'A replacement pays what nodes ask for',
    file: 'custody/bitcoin/plan.ts',
    from: '  if (fee >= needed) return {plan}',
    to: '  return {plan}',
    tests: ['custody/bitcoin/plan.test.ts'],
  },
  {
    rule: 'The same request gives the same bytes',
    file: 'custody/bitcoin/plan.ts',
    from: `  if (identical) return {attempt: identical}
`,
    to: '',
    tests: ['custody/bitcoin/plan.test.ts'],
  },
  {
    rule: 'No output is dust',
    file: 'custody/bitcoin/plan.ts',
    from: `    if (value < dustLimit(script))
`,
    to: `    if (false)
`,
    tests: ['custody/bitcoin/plan.test.ts'],
  },
  {
    rule: 'No more is paid than the inputs hold',
    file: 'custody/bitcoin/plan.ts',
    from: `  if (rest < 0n)
`,
    to: `  if (false)
`,
    tests: ['custody/bitcoin/plan.test.ts'],
  },
  {
    rule: 'A CPFP child spends what it was begun with',
    file: 'custody/bitcoin/plan.ts',
    from: 'if (firstInput !== inputs[0] || known.size !== inputs.length || !inputs.every(input => known.has(input)))',
    to: 'if (false)',
    tests: ['custody/bitcoin/plan.test.ts', 'db/outputs.test.ts', 'test/faults/bitcoin-payouts.test.ts'],
  },
  {
    rule: 'A CPFP child spends outputs of one merchant',
    file: 'custody/bitcoin/outputs.ts',
    from: 'if (rows.some(({txid, merchant_id}) => txid !== first!.txid || merchant_id !== first!.merchant_id))',
    to: 'if (false)',
    tests: ['custody/bitcoin/plan.test.ts', 'test/faults/attacker.test.ts'],
  },
]
