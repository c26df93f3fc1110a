// The root of a list as in a block's header: of a Merkle-Patricia trie (Yellow Paper, appendix D) that has each item
// under the RLP of its index. Bytes are hex without 0x here, as nodes return them. So RLP only puts lengths in front of
// existing text, and bytes are copied only to be hashed.
import {createKeccak} from 'hash-wasm'

const hasher = await createKeccak(256) // viem's function takes nine times as long per receipt (measured), and a block has hundreds

export function keccak256(hex: string): string {
  return hasher.init().update(Buffer.from(hex, 'hex')).digest()
}

export const rlp = {
  bytes: (hex: string): string => (hex.length === 2 && hex < '80' ? hex : withLength(0x80, hex)),
  /** Without leading zeros. */
  number: (value: number | bigint): string => (value ? rlp.bytes(evenHex(value)) : '80'),
  /** Takes items that are already encoded. */
  list: (...items: string[]): string => withLength(0xc0, items.join('')),
}

/** Root of the trie of no items. */
export const emptyRoot = keccak256('80')

/** The root of the trie of these items; all in hex without 0x. */
export function orderedTrieRoot(items: string[]): string {
  if (!items.length) return emptyRoot
  const entries = items.map((value, index) => ({path: rlp.number(index), value}))
  return keccak256(
    node(
      entries.sort((a, b) => (a.path < b.path ? -1 : 1)),
      0,
    ),
  )
}

interface Entry {
  /** One hex digit for each step. */
  path: string
  value: string
}

/**
 * The node above these entries, which are sorted by path and whose paths agree up to a depth. No path is a prefix of
 * another.
 */
function node(entries: Entry[], depth: number): string {
  const [first] = entries as [Entry]
  if (entries.length === 1) return rlp.list(steps(first.path.slice(depth), true), rlp.bytes(first.value))
  const last = entries.at(-1)!.path
  let fork = depth
  while (first.path[fork] === last[fork]) fork++
  if (fork > depth) return rlp.list(steps(first.path.slice(depth, fork), false), reference(node(entries, fork)))
  const children = Array.from('0123456789abcdef', step => entries.filter(({path}) => path[depth] === step))
  return rlp.list(...children.map(child => (child.length ? reference(node(child, depth + 1)) : '80')), '80')
}

/** The node itself if it is short, otherwise its hash. */
function reference(encoded: string): string {
  return encoded.length < 64 ? encoded : rlp.bytes(keccak256(encoded))
}

/** The first digit says whether a leaf follows and whether the number of steps is odd. */
function steps(path: string, leaf: boolean): string {
  const odd = path.length % 2
  return rlp.bytes(`${(leaf ? 2 : 0) + odd}${odd ? '' : '0'}${path}`)
}

function withLength(offset: number, hex: string): string {
  const size = hex.length / 2
  if (size < 56) return evenHex(offset + size) + hex
  const length = evenHex(size)
  return evenHex(offset + 55 + length.length / 2) + length + hex
}

function evenHex(value: number | bigint): string {
  const hex = value.toString(16)
  return hex.length % 2 ? `0${hex}` : hex
}
