// The only code that calls a node of the made-up family. Every request ends in time, or rejects with RetryableError.
import {z} from 'zod'
import {RetryableError} from '../../base/errors.ts'
import type {NodeHead} from '../family.ts'
import type {MadeUpSettings} from './settings.ts'

const Failed = z.object({error: z.object({message: z.string()})})
export const Head = z.object({height: z.int(), hash: z.string()})

/** The node answered that it does not do it. */
export class NodeError extends RetryableError {}

interface Question<T> {
  method: string
  params?: unknown[]
  response: z.ZodType<T>
}

export async function ask<T>({rpcUrl}: MadeUpSettings, question: Question<T>, timeoutMs = 3000): Promise<T> {
  const {method, params = [], response: shape} = question
  try {
    const response = await fetch(rpcUrl!, {
      method: 'POST',
      headers: {'content-type': 'application/json'},
      body: JSON.stringify({jsonrpc: '2.0', id: 1, method, params}),
      signal: AbortSignal.timeout(timeoutMs),
    })
    const answer = z
      .object({result: shape})
      .or(Failed)
      .parse(await response.json())
    if ('result' in answer) return answer.result
    throw new NodeError(answer.error.message)
  } catch (cause) {
    if (cause instanceof NodeError) throw cause
    throw new RetryableError(`the node does not answer ${method}`, {cause})
  }
}

export function openHead(settings: MadeUpSettings, timeoutMs: number): NodeHead {
  return {height: async () => (await ask(settings, {method: 'head', response: Head}, timeoutMs)).height, close() {}}
}
