// Tries a transfer of a token without making it: an EVM program in the place of its sender's code (an override of
// eth_call) transfers, and returns what arrived. Promises: nothing is signed or stored. What the token says of the
// transfer, and what its recipient has more afterwards, are two answers: a token with a fee gives less than it says.
//
// A node that knows no overrides gives an error, or calls an address without code, which returns nothing: both mean
// that nobody can say.
import {encodeFunctionData, erc20Abi, getAddress, type Hex, numberToHex} from 'viem'
import {z} from 'zod'
import type {Question, Response} from './client.ts'
import {meaningOf, wordsOf} from './node-errors.ts'

/** Brackets show the stack, its top last. After the program come two calls and the token's address, 0x88 bytes. */
const program = [
  '6088 6053 6000 39', //                         CODECOPY(to 0x00, from 0x53 = the end of the program, 0x88 bytes)
  '6020 60a0 6024 6000 6068 51 5a fa 50', //      STATICCALL(token, balanceOf(recipient) at 0x00, response to 0xa0)
  '60a0 51', //                                   [before]
  '6020 60c0 6044 6024 6000 6068 51 5a f1', //    [before ok]: CALL(token, transfer(recipient, amount) at 0x24, response to 0xc0)
  '610100 52', //                                 MSTORE(0x100, ok)
  '3d 610120 52', //                              MSTORE(0x120, RETURNDATASIZE)
  '60c0 51 610140 52', //                         MSTORE(0x140, the word that it returned)
  '6020 60a0 6024 6000 6068 51 5a fa 50', //      STATICCALL(token, balanceOf(recipient) at 0x00, response to 0xa0)
  '60a0 51 03', //                                [after - before]
  '610160 52', //                                 MSTORE(0x160, what arrived)
  '6080 610100 f3', //                            RETURN(from 0x100, 0x80 bytes)
]
  .join('')
  .replaceAll(' ', '')

const Words = z
  .string()
  .regex(/^0x([0-9a-f]{64}){4}$/i)
  .transform(hex => hex.match(/[0-9a-f]{64}/gi)!.map(word => BigInt(`0x${word}`)))

export interface Transfer {
  contract: string
  from: string
  to: string
  amount: bigint
}

/** What a token did with the transfer; `unknown` says why nobody can say. */
export type Tried = {returned: 'nothing' | 'true' | 'false' | 'failure'; arrived: bigint} | {unknown: string}

/** At the newest block. */
export function tryTransfer({contract, from, to, amount}: Transfer): Question {
  const recipient = getAddress(to)
  const calls = [
    encodeFunctionData({abi: erc20Abi, functionName: 'balanceOf', args: [recipient]}),
    encodeFunctionData({abi: erc20Abi, functionName: 'transfer', args: [recipient, amount]}),
    numberToHex(BigInt(contract), {size: 32}),
  ]
  const code: Hex = `0x${program}${calls.map(part => part.slice(2)).join('')}`
  return {method: 'eth_call', params: [{from, to: from}, 'latest', {[from]: {code}}]}
}

export function readTried(response: Response): Tried {
  if ('message' in response)
    return {unknown: meaningOf(response) === 'call_fails' ? 'the node tried it in vain' : wordsOf(response)}
  const {success, data} = Words.safeParse(response.result)
  if (!success) return {unknown: 'the node cannot try it (it knows no overrides of eth_call)'}
  const [ok, returnedBytes, word, arrived] = data as [bigint, bigint, bigint, bigint]
  if (ok === 0n) return {returned: 'failure', arrived}
  return {returned: returnedBytes === 0n ? 'nothing' : word === 0n ? 'false' : 'true', arrived}
}
