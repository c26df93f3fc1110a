// As much of protobuf's wire format as Tron's messages need: fields with integers, and fields with bytes. Promises:
// `encode` writes fields in the given order and leaves out defaults, as the nodes do, so equal messages have equal
// bytes. `decode` refuses bytes that end too early.

/** The bytes are no message: their sender is broken or lies. */
export class MalformedError extends Error {
  override name = 'MalformedError'
}

export type Value = bigint | Uint8Array

/** Fields by number. The values of a repeated field are in an array, where defaults count. */
export function encode(fields: [number, Value | Value[] | undefined][]): Uint8Array {
  const parts = fields.flatMap(([number, value]) => {
    if (Array.isArray(value)) return value.map(each => encodeField(number, each))
    const isDefault = value === undefined || value === 0n || (typeof value === 'object' && value.length === 0)
    return isDefault ? [] : [encodeField(number, value)]
  })
  return Buffer.concat(parts)
}

function encodeField(number: number, value: Value): Uint8Array {
  if (typeof value === 'bigint') return Buffer.concat([varint(BigInt(number << 3)), varint(value)])
  return Buffer.concat([varint(BigInt((number << 3) | 2)), varint(BigInt(value.length)), value])
}

/** An int64: a negative number takes ten bytes. */
function varint(value: bigint): Uint8Array {
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, value)
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
  return Uint8Array.of(...bytes, Number(rest))
}

/** The fields of a message, each with its values in their order. */
export class Message {
  readonly #fields = new Map<number, Value[]>()

  /** Throws MalformedError. */
  constructor(bytes: Uint8Array) {
    const reader = new Reader(bytes)
    while (!reader.done) {
      const {number, value} = reader.field()
      this.#fields.set(number, [...(this.#fields.get(number) ?? []), value])
    }
  }

  /** An integer; of several, as everywhere in protobuf, the last one counts. */
  integer(field: number): bigint {
    const value = this.#fields.get(field)?.at(-1) ?? 0n
    if (typeof value === 'bigint') return BigInt.asIntN(64, value)
    throw new MalformedError(`field ${field} is no integer`)
  }

  bytes(field: number): Uint8Array {
    return this.all(field).at(-1) ?? new Uint8Array()
  }

  /** A repeated field. */
  all(field: number): Uint8Array[] {
    return (this.#fields.get(field) ?? []).map(value => {
      if (typeof value === 'object') return value
      throw new MalformedError(`field ${field} has no bytes`)
    })
  }
}

class Reader {
  readonly #bytes: Uint8Array
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  get done(): boolean {
    return this.#at === this.#bytes.length
  }

  field(): {number: number; value: Value} {
    const tag = Number(this.#varint())
    const number = Math.floor(tag / 8)
    if (tag % 8 === 0) return {number, value: this.#varint()}
    if (tag % 8 === 2) return {number, value: this.#take(Number(this.#varint()))}
    throw new MalformedError(`a field of wire type ${tag % 8}`) // Tron's messages have no others
  }

  #varint(): bigint {
    let value = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const [byte] = this.#take(1)
      value |= BigInt(byte! & 127) << shift
      if (byte! < 128) return value
    }
    throw new MalformedError('an integer of more than ten bytes')
  }

  #take(length: number): Uint8Array {
    const end = this.#at + length
    if (end > this.#bytes.length) throw new MalformedError('the bytes end too early')
    const taken = this.#bytes.subarray(this.#at, end)
    this.#at = end
    return taken
  }
}
