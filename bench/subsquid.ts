// Unmodified evm-processor, for comparison: it reads the same blocks with the same fields, finds transfers, and stores
// nothing. node bench/subsquid.ts <url> <from> <to>; prints blocks/s between the two heights.
import {EvmBatchProcessor} from '@subsquid/evm-processor'
import {transferTopic} from '../indexers/evm/transfers.ts'

const [url, from, to] = [process.argv[2]!, Number(process.argv[3]), Number(process.argv[4])]

let began = 0
let first = 0
const database = {
  supportsHotBlocks: false as const,
  connect: async () => ({height: 0, hash: '0x'}),
  async transact({nextHead: {height}}: {nextHead: {height: number}}, work: (store: object) => Promise<void>) {
    await work({})
    if (height < from) return
    if (!first) [first, began] = [height, performance.now()]
    else if (height >= to) {
      console.log((height - first) / ((performance.now() - began) / 1000))
      process.exit(0)
    }
  },
}

new EvmBatchProcessor()
  .setRpcEndpoint({url, capacity: 10, maxBatchCallSize: 100})
  .setFinalityConfirmation(75)
  .setFields({
    block: {timestamp: true},
    transaction: {hash: true, from: true, to: true, value: true, status: true},
    log: {address: true, topics: true, data: true},
  })
  .includeAllBlocks()
  .addTransaction({})
  .addLog({topic0: [transferTopic]})
  .run(database, async ({blocks}) => {
    for (const {header, transactions, logs} of blocks) {
      if (transactions.length < logs.length)
        throw new Error(`block ${header.height} has more transfers than transactions`)
    }
  })
