// The calls of a token's contract (EIP-20) that Sluice makes, on every chain whose contracts have Ethereum's ABI. Each
// argument is one word of 32 bytes; addresses are given as numbers.
const word = (value: bigint) => value.toString(16).padStart(64, '0')

/** In hex, without 0x: transfer(address,uint256). */
export const transferCall = (to: bigint, amount: bigint): string => `a9059cbb${word(to)}${word(amount)}`

/** In hex, without 0x: balanceOf(address). */
export const balanceOfCall = (owner: bigint): string => `70a08231${word(owner)}`
