// Blocks, transactions and what came of them, as java-tron shows them.
import {bytesOf as addressBytes} from '../../../chains/tron/address.ts'
import type {Log} from '../../../chains/tron/responses.ts'
import {parseRawData, type Transaction} from '../../../chains/tron/transaction.ts'
import type {Included, LocalBlock} from '../journal.ts'
import {shown} from '../transaction-types.ts'
import type {Internal} from '../vm/frame.ts'

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')

export function blockJson({hash, header, transactions}: LocalBlock, detail = true): object {
  const {height, time, txTrieRoot, parentHash, witness, version} = header
  return {
    blockID: hash,
    block_header: {
      raw_data: {
        ...(height && {number: height}),
        txTrieRoot,
        ...(witness && {witness_address: witness}),
        parentHash,
        ...(version && {version: Number(version)}),
        ...(time && {timestamp: time}),
      },
    },
    ...(detail &&
      transactions.length && {transactions: transactions.map(({transaction}) => transactionJson(transaction))}),
  }
}

export function transactionJson({txid, rawData, signatures, result}: Transaction): object {
  return {
    ...(result && {ret: [{contractRet: result}]}),
    signature: signatures.map(hex),
    txID: txid,
    ...rawDataJson(rawData),
  }
}

export function rawDataJson(rawData: Uint8Array): object {
  const {refBytes, refHash, expiration, timestamp, feeLimit, memo, contract} = parseRawData(rawData)
  const {name, value} = shown.get(contract.type)!
  const parameter = {value: value(contract.message), type_url: `type.googleapis.com/protocol.${name}`}
  return {
    raw_data: {
      contract: [{parameter, type: name}],
      ref_block_bytes: hex(refBytes),
      ref_block_hash: hex(refHash),
      expiration,
      ...(memo.length && {data: hex(memo)}),
      ...(timestamp && {timestamp}),
      ...(feeLimit && {fee_limit: Number(feeLimit)}),
    },
    raw_data_hex: hex(rawData),
  }
}

export function infoJson({header}: LocalBlock, {transaction, executed}: Included): object {
  const {fee, bandwidth, invoked, withdrawn} = executed
  return {
    id: transaction.txid,
    ...(fee && {fee: Number(fee)}),
    blockNumber: header.height,
    blockTimeStamp: header.time,
    contractResult: [invoked ? hex(invoked.data) : ''],
    ...(invoked && {contract_address: hex(addressBytes(invoked.contract))}),
    receipt: {
      ...(invoked?.staked && {energy_usage: Number(invoked.staked)}),
      ...(invoked?.energyFee && {energy_fee: Number(invoked.energyFee)}),
      ...(invoked?.energy && {energy_usage_total: Number(invoked.energy)}),
      ...(invoked?.penalty && {energy_penalty_total: Number(invoked.penalty)}),
      ...(bandwidth.usage && {net_usage: bandwidth.usage}),
      ...(bandwidth.fee && {net_fee: Number(bandwidth.fee)}),
      ...(invoked && {result: invoked.result}),
    },
    ...(invoked?.message && {result: 'FAILED', resMessage: hex(Buffer.from(invoked.message))}),
    ...(invoked?.logs.length && {log: invoked.logs.map(logJson)}),
    ...(invoked?.internals.length && {internal_transactions: invoked.internals.map(internalJson)}),
    ...(withdrawn && {withdraw_expire_amount: Number(withdrawn)}),
  }
}

export function logJson({address, topics, data}: Log): object {
  return {address: hex(address), topics: topics.map(hex), ...(data.length && {data: hex(data)})}
}

export function internalJson({hash, from, to, note, isRejected, values}: Internal): object {
  return {
    hash: hex(hash),
    caller_address: hex(from),
    transferTo_address: hex(to),
    callValueInfo: values.map(({amount}) => (amount ? {callValue: Number(amount)} : {})),
    note: hex(Buffer.from(note)),
    ...(isRejected && {rejected: true}),
  }
}
