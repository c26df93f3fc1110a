// The memory of one call: it grows by words, and what was never written is zero.

export class Memory {
  #bytes = new Uint8Array(1024)
  #size = 0

  get size(): number {
    return this.#size
  }

  extend(offset: number, length: number): void {
    const end = length && Math.ceil((offset + length) / 32) * 32
    if (end <= this.#size) return
    this.#size = end
    if (end <= this.#bytes.length) return
    const grown = new Uint8Array(Math.max(end, 2 * this.#bytes.length))
    grown.set(this.#bytes)
    this.#bytes = grown
  }

  read(offset: number, length: number): Uint8Array {
    this.extend(offset, length)
    return this.#bytes.slice(offset, offset + length)
  }

  write(offset: number, bytes: Uint8Array): void {
    this.extend(offset, bytes.length)
    this.#bytes.set(bytes, offset)
  }
}
