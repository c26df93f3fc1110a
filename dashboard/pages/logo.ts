// A merchant's logo, for a page that its customers see. Promises: what is kept and shown is an image made here, of the
// pixels alone, whatever was sent; an image that takes long to decode, or much memory, is refused, and holds up nobody.
import {Worker} from 'node:worker_threads'
import {Refusal} from './form.ts'
import type {Made} from './logo-worker.ts'

const mostBytes = 512 * 1024
const timeoutMs = 3000

/**
 * A PNG of at most 256 pixels on each side. Rejects with a Refusal for anything that is no PNG or JPEG of a sane size.
 */
export async function logoOf(file: Buffer): Promise<Buffer> {
  if (file.length > mostBytes) throw new Refusal(`The logo must have at most ${mostBytes / 1024} KiB.`)
  const worker = new Worker(new URL('./logo-worker.ts', import.meta.url), {
    workerData: file,
    resourceLimits: {maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 32},
  })
  const timer = setTimeout(() => void worker.terminate(), timeoutMs)
  try {
    const made = await new Promise<Made>((resolve, reject) => {
      worker.once('message', resolve)
      worker.once('error', reject)
      worker.once('exit', () => reject(new Refusal('The logo takes too long to read: save it as a simple PNG.')))
    })
    if ('refusal' in made) throw new Refusal(made.refusal)
    return Buffer.from(made.png)
  } catch (error) {
    throw error instanceof Refusal ? error : new Refusal('The logo cannot be read: it needs too much memory.')
  } finally {
    clearTimeout(timer)
    void worker.terminate()
  }
}
