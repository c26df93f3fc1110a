// A chain that is replayed from memory, over HTTP: node bench/replay-server.ts <blocks> <transactions per block>. It
// responds like a node, with text that is ready before the first request, so that the bench measures the client. Every
// 50th transaction pays an address that the bench provisioned; half of the transactions are USDC transfers; large
// blocks have sixteen withdrawals, like those of Ethereum. The roots of receipts and withdrawals and the filters over
// logs are true; unused data is made up.
import {createHash} from 'node:crypto'
import http from 'node:http'
import {domainSeparator} from 'viem'
import {getAddress} from 'viem/utils'
import {type ByAuthorisation, chain, type Erc20, type EvmChain} from '../chains/registry.ts'
import {readWithdrawals} from '../indexers/evm/block.ts'
import {logsBloom} from '../indexers/evm/bloom.ts'
import {orderedTrieRoot} from '../indexers/evm/trie.ts'
import {encodedReceipts, encodedWithdrawals} from '../indexers/evm/verify-block.ts'

export const usdc = `0x${'c0ffee'.padEnd(40, '0')}`
/** The n-th provisioned address, in lower case. */
export const ours = (n: number): string => `0x${n.toString(16).padStart(8, '0')}${'a'.repeat(32)}`

const addresses = 1_000_000
const chainId = 1337
const hash = (text: string) => `0x${createHash('sha256').update(text).digest('hex')}`
const hex = (n: number | bigint) => `0x${n.toString(16)}`
const word = (value: string) => `0x${value.replace('0x', '').padStart(64, '0')}`
const transferTopic = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

interface Stored {
  block: string
  header: string
  receipts: string
}

function makeBlock(height: number, perBlock: number): Stored {
  const blockHash = hash(`block ${height}`)
  const at = {blockHash, blockNumber: hex(height)}
  const transactions = []
  const receipts = []
  for (let i = 0; i < perBlock; i++) {
    const n = height * perBlock + i
    const txid = hash(`transaction ${n}`)
    const from = `0x${hash(`sender ${n % 1000}`).slice(2, 42)}`
    const to = n % 50 === 0 ? ours((n * 7919) % addresses) : `0x${hash(`stranger ${n}`).slice(2, 42)}`
    const token = i % 2 === 1
    const amount = word(hex(1_000_000n + BigInt(n)))
    const position = {transactionHash: txid, transactionIndex: hex(i)}
    transactions.push({
      type: '0x2',
      chainId: '0x539',
      nonce: hex(n),
      gas: '0x186a0',
      maxFeePerGas: '0x77359400',
      maxPriorityFeePerGas: '0x1',
      to: token ? usdc : to,
      value: token ? '0x0' : amount.replace(/^0x0+/, '0x'),
      accessList: [],
      input: token ? `0xa9059cbb${word(to).slice(2)}${amount.slice(2)}` : '0x',
      r: hash(`r ${n}`),
      s: hash(`s ${n}`),
      yParity: '0x0',
      v: '0x0',
      hash: txid,
      ...at,
      transactionIndex: hex(i),
      from,
      gasPrice: '0x77359400',
    })
    const logs = token ? [{address: usdc, topics: [transferTopic, word(from), word(to)], data: amount}] : []
    receipts.push({
      type: '0x2',
      status: '0x1',
      cumulativeGasUsed: hex(50_000 * (i + 1)),
      logsBloom: logsBloom(logs),
      ...position,
      ...at,
      gasUsed: '0xc350',
      effectiveGasPrice: '0x77359400',
      from,
      to: token ? usdc : to,
      contractAddress: null,
      logs: logs.map(log => {
        const more = {blockTimestamp: hex(1.7e9 + height), logIndex: hex(i >> 1), removed: false}
        return {...log, ...at, ...position, ...more}
      }),
    })
  }
  const logs = receipts.flatMap((receipt, transactionIndex) => receipt.logs.map(log => ({...log, transactionIndex})))
  const proven = receipts.map(({type, status, cumulativeGasUsed}, transactionIndex) => {
    return {transactionIndex, type: Number(type), status: Number(status), cumulativeGasUsed: BigInt(cumulativeGasUsed)}
  })
  const withdrawals = Array.from({length: perBlock < 100 ? 0 : 16}, (_, i) => {
    const n = height * 16 + i
    return {
      index: hex(n),
      validatorIndex: hex(n % 1e6),
      address: hash(`validator ${n % 1000}`).slice(0, 42),
      amount: hex(15_000_000),
    }
  })
  const header = {
    hash: blockHash,
    parentHash: hash(`block ${height - 1}`),
    sha3Uncles: hash('uncles'),
    miner: usdc,
    stateRoot: hash(`state ${height}`),
    transactionsRoot: hash(`transactions ${height}`),
    receiptsRoot: `0x${orderedTrieRoot(encodedReceipts({transactions: proven, logs}) ?? [])}`,
    logsBloom: logsBloom(logs),
    difficulty: '0x0',
    number: hex(height),
    gasLimit: '0x1c9c380',
    gasUsed: hex(50_000 * perBlock),
    timestamp: hex(1_700_000_000 + height),
    extraData: '0x',
    mixHash: hash(`mix ${height}`),
    nonce: '0x0000000000000000',
    baseFeePerGas: '0x7',
    size: '0x400',
    uncles: [],
    ...(withdrawals.length && {
      withdrawals,
      withdrawalsRoot: `0x${orderedTrieRoot(encodedWithdrawals(readWithdrawals({withdrawals})))}`,
    }),
  }
  return {
    block: JSON.stringify({...header, transactions}),
    header: JSON.stringify({...header, transactions: transactions.map(transaction => transaction.hash)}),
    receipts: JSON.stringify(receipts),
  }
}

/** What the token's contract answers to the calls of chains/evm/check-tokens.ts, by selector. */
function contractAnswers(): Record<string, string> {
  const {assets} = chain('ETH') as EvmChain
  const entry = assets[1] as Erc20
  const {name, version} = (entry.sweep as ByAuthorisation).domain
  return {
    '0x313ce567': word(hex(entry.decimals)),
    '0x3644e515': domainSeparator({domain: {name, version, chainId, verifyingContract: getAddress(usdc)}}),
    '0xe94a0102': word('0x0'),
  }
}

function serve(count: number, perBlock: number): void {
  const blocks = Array.from({length: count + 1}, (_, height) => makeBlock(height, perBlock))
  const find = (tag: string) => blocks[tag === 'latest' || tag === 'finalized' ? count : Number(tag)]
  const answers = contractAnswers()
  // biome-ignore lint/suspicious/noExplicitAny: each method has parameters of its own
  const respond = ({id, method, params}: {id: number; method: string; params: any[]}) => {
    let result = 'null'
    if (method === 'eth_blockNumber') result = `"${hex(count)}"`
    else if (method === 'eth_chainId') result = `"${hex(chainId)}"`
    else if (method === 'eth_getCode') result = '"0x00"'
    else if (method === 'eth_call') result = `"${answers[params[0].data.slice(0, 10)]}"`
    else if (method === 'eth_getBlockByNumber') result = find(params[0])?.[params[1] ? 'block' : 'header'] ?? 'null'
    else if (method === 'eth_getBlockReceipts') result = find(params[0])?.receipts ?? 'null'
    else return `{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":"no such method"}}`
    return `{"jsonrpc":"2.0","id":${id},"result":${result}}`
  }
  // Its clients may rest for long between two requests.
  const server = http.createServer({keepAliveTimeout: 0}, (request, response) => {
    const parts: Buffer[] = []
    request.on('data', part => parts.push(part))
    request.on('end', () => {
      const asked = JSON.parse(Buffer.concat(parts).toString())
      response.setHeader('content-type', 'application/json')
      response.end(Array.isArray(asked) ? `[${asked.map(respond).join(',')}]` : respond(asked))
    })
  })
  server.listen(0, '127.0.0.1', () => process.send?.({port: (server.address() as {port: number}).port}))
  process.once('disconnect', () => process.exit(0))
}

if (process.argv[1] === import.meta.filename) serve(Number(process.argv[2]), Number(process.argv[3]))
