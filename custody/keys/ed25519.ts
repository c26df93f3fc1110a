// The curve of Solana, from Node's own cryptography. Promises: keys follow SLIP-0010, where every step of a path is
// hardened: nobody derives another address from a public key. Signatures are those of RFC 8032 over the whole message,
// so the same message gives the same bytes.
import {createHmac, createPrivateKey, createPublicKey, type KeyObject, sign} from 'node:crypto'
import type {Curve} from './key-store.ts'

/** What precedes the key in PKCS #8 (RFC 8410). */
const pkcs8 = Buffer.from('302e020100300506032b657004220420', 'hex')

/** A private key and a chain code, 32 bytes each. */
type Node = Buffer

/** Public keys have 32 bytes, signatures 64. Any one step of a path may be the index. */
export const ed25519: Curve = {
  branch(seed, path) {
    const [before, after] = stepsOf(path)
    const root = hmac(Buffer.from('ed25519 seed'), seed)
    const parent = derive(root, before)
    root.fill(0)
    return index => {
      const node = derive(parent, [index, ...after])
      const key = Uint8Array.from(node.subarray(0, 32))
      node.fill(0)
      return key
    }
  },
  publicKey: key => createPublicKey(privateKeyOf(key)).export({format: 'der', type: 'spki'}).subarray(-32),
  sign: (key, message) => sign(null, message, privateKeyOf(key)),
}

/** The steps before the index, and those after it. */
function stepsOf(path: string): [before: number[], after: number[]] {
  if (!/^m(\/\d+')*\/i'(\/\d+')*$/.test(path))
    throw new RangeError(`${path} must be hardened steps with the index among them, such as m/44'/i'`)
  const [before, after] = path.split('/i').map(part => (part.match(/\d+/g) ?? []).map(Number))
  return [before!, after!]
}

/** Every node on the way is wiped, but not the one that it starts from. */
function derive(from: Node, steps: number[]): Node {
  const [step, ...rest] = steps
  if (step === undefined) return Buffer.from(from)
  const child = childOf(from, step)
  try {
    return derive(child, rest)
  } finally {
    child.fill(0)
  }
}

function childOf(node: Node, step: number): Node {
  const data = Buffer.alloc(37)
  node.copy(data, 1, 0, 32)
  data.writeUInt32BE(step + 2 ** 31, 33)
  const child = hmac(node.subarray(32), data)
  data.fill(0)
  return child
}

function hmac(key: Uint8Array, data: Uint8Array): Buffer {
  return createHmac('sha512', key).update(data).digest()
}

function privateKeyOf(key: Uint8Array): KeyObject {
  const der = Buffer.concat([pkcs8, key])
  try {
    return createPrivateKey({key: der, format: 'der', type: 'pkcs8'})
  } finally {
    der.fill(0)
  }
}
