// The source of a chain that is read from its node by JSON-RPC: a proxy in front of the node. It has the faults that
// are the same on every chain; the chain's driver adds the rest.
import {type Behaviour, faults, type RpcProxy} from '../support/rpc-proxy.ts'
import type {Fault, Source} from './chain.ts'

type Wrong = () => Behaviour | Promise<Behaviour>

/** The faults whose form differs between chains. */
export interface Forms extends Record<'lags' | 'returns nothing' | 'is of another network', Wrong> {
  /** The error of a node that has no blocks below this one. */
  forgets(below: number): Behaviour | Promise<Behaviour>
}

export class RpcSource implements Source {
  readonly #proxy: RpcProxy
  readonly #forms: Forms
  #fault: Fault | undefined

  constructor(proxy: RpcProxy, forms: Forms) {
    this.#proxy = proxy
    this.#forms = forms
  }

  async behave(fault?: Fault): Promise<void> {
    const behave = fault && (await {...everywhere, ...this.#forms}[fault]())
    this.#proxy.tellsHeads = fault !== 'lags'
    this.#proxy.behave = behave
    if (this.#fault === 'hangs') this.#proxy.disconnect()
    this.#fault = fault
  }

  async forget(below: number): Promise<void> {
    this.#proxy.behave = await this.#forms.forgets(below)
  }

  asked(times: number): Promise<void> {
    return this.#proxy.asked(times)
  }

  close(): Promise<void> {
    return this.#proxy.close()
  }
}

const everywhere = {
  'repeats itself': () => {
    const before = new Map<string, unknown>()
    let calls = 0
    return async (call, pass) => {
      const question = JSON.stringify(call)
      if (++calls % 2 === 0 && before.has(question)) return before.get(question)
      const response = await pass()
      before.set(question, response)
      return response
    }
  },
  fails: () => {
    const ways = [() => faults.error(), () => faults.drop(), () => faults.truncate(), () => faults.status(503)]
    let calls = 0
    return (_, pass) => (++calls % 3 === 0 ? pass() : ways[calls % ways.length]!())
  },
  hangs: () => () => faults.hang(),
} satisfies Partial<Record<Fault, Wrong>>
