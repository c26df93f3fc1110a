// What stands between a process of the service and the node of a chain.

export interface GoBetween {
  /** Between whom, in words. */
  readonly what: string
  readonly counts: Record<string, number>
  /** Takes its place. To be called before the service starts. */
  open(): Promise<void>
  /** From now on it is honest. */
  calm(): void
  close(): void
}
