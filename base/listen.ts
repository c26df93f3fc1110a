import {PermanentError} from './errors.ts'

/** Waits until `what` listens; `setting` names its port. Throws a PermanentError that says why it cannot. */
export async function listening(started: Promise<unknown>, host: string, port: number, what: string, setting: string) {
  await started.catch(({code, message}) => {
    const why = code === 'EADDRINUSE' ? 'another program listens there' : message
    throw new PermanentError(
      `${what} cannot listen on ${host}:${port} (${setting}): ${why}; set ${setting} to a free port`,
    )
  })
}

/** The URL at which another process on this machine, or in this network, reaches a port. */
export const urlAt = (host: string, port: number): string => `http://${host.includes(':') ? `[${host}]` : host}:${port}`

export const portIn = (httpUrl: string): number => Number(new URL(httpUrl).port || 80)
