// The gas limits that a transaction can have, as the worker asks for them and custody checks them. Outside of these no
// block takes the transaction, and its nonce would be held for ever.

/** The gas that the bytes of a transaction need (EIP-2028, EIP-7623), whatever its call does. */
export const leastGas = {transfer: 21_000n, tokenTransfer: 30_000n, tokenSweep: 50_000n} as const

/** EIP-7825. */
export const mostGas = 2n ** 24n
