/** CAIP-2 id of the network with this first block. */
export const caip2 = (genesis: string): string => `bip122:${genesis.slice(0, 32)}`
