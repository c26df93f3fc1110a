// An EVM program that returns the balances of many addresses in one token, by one eth_call: the call has no recipient,
// so its data runs as code, nothing is stored, and the return data is the result. Promises: it returns the number of
// the block that was read, then one word for each address, in order. A balance that could not be read is all ones,
// which no balance can be, and affects no other one.
//
// Limits of nodes for such a call: it returns at most 24,576 bytes (EIP-170), which is 768 words. The first byte
// returned is not 0xEF (EIP-3541); the first byte of a block number never is. The code has at most 49,152 bytes
// (EIP-3860). 760 addresses are 15,323 bytes of code, and return 24,352.
import {z} from 'zod'
import {RetryableError} from '../../../base/errors.ts'

export const addressesMax = 760

/** The memory: 0x00 the call data, 0x40 the response to that call, 0x60 the token, from 0x80 on the return data. */
const program = [
  // After the program come the token (20 zeros for the native coin) and the addresses. Brackets show the stack, its top
  // last.
  '6014 6067 606c 39', //                 CODECOPY(to 0x6c, from 0x67 = the end of the program, 20 bytes): the token's word
  '6370a08231 60e0 1b 6000 52', //        MSTORE(0x00, the selector of balanceOf(address), at the word's left)
  '43 6080 52', //                        MSTORE(0x80, NUMBER)
  '607b 60a0', //                         [in out]: where the next address is in the code, and where its balance goes in memory
  // 0x1a: the next address
  '5b 81 38 11 6028 57', //               if CODESIZE > in, go on at 0x28
  '6080 90 03 6080 f3', //                RETURN(from 0x80, out - 0x80 bytes)
  // 0x28
  '5b 6014 82 6010 39', //                CODECOPY(to 0x10, from in, 20 bytes): the address's word, at 0x04
  '6060 51 80 603e 57', //                [in out token]; if there is one, go on at 0x3e
  '50 6004 51 31 6059 56', //             [in out BALANCE(address)], go on at 0x59
  // 0x3e
  '5b 6020 6040 6024 6000 84 5a fa', //   STATICCALL(all gas, token, 0x24 bytes from 0x00, response of 0x20 bytes to 0x40)
  '6020 3d 14 16', //                     [in out token ok]: 1 if it succeeded and returned one word, else 0
  '6001 90 03 6040 51 17', //             [in out token (ok - 1) | MLOAD(0x40)]: 0 - 1 is all ones
  '90 50', //                             [in out balance]
  // 0x59
  '5b 81 52', //                          MSTORE(out, balance)
  '6020 01 90 6014 01 90 601a 56', //     [in + 20, out + 32], go on at 0x1a
]
  .join('')
  .replaceAll(' ', '')

const none = '0x0000000000000000000000000000000000000000'
const unreadable = 2n ** 256n - 1n

const Words = z
  .string()
  .regex(/^0x([0-9a-f]{64})+$/i)
  .transform(hex => hex.match(/[0-9a-f]{64}/gi)!.map(word => BigInt(`0x${word}`)))

/** The data of the call; `contract` is undefined for the native coin. */
export function heldCode(contract: string | undefined, addresses: string[]): string {
  return `0x${program}${[contract ?? none, ...addresses].map(address => address.slice(2)).join('')}`.toLowerCase()
}

/**
 * The balance of each address; null if the token did not return it. Throws RetryableError if the response is of another
 * block, or has no block.
 */
export function readHeld(response: unknown, {height, count}: {height: number; count: number}): (bigint | null)[] {
  const [number, ...balances] = Words.safeParse(response).data ?? []
  if (number === undefined || balances.length !== count)
    throw new RetryableError(
      `the node gave an unexpected response to a request for ${count} balances: ${JSON.stringify(response)?.slice(0, 100)}`,
    )
  if (number !== BigInt(height))
    throw new RetryableError(`the node was asked for balances at block ${height}, and answered for block ${number}`)
  return balances.map(balance => (balance === unreadable ? null : balance))
}
