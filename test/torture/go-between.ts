// A proxy between a process of the service and the node of a chain.

export interface GoBetween {
  /** Both sides, in words. */
  readonly what: string
  readonly counts: Record<string, number>
  /** Starts it. Must be called before the service starts. */
  open(): Promise<void>
  /** Ends all misbehaviour. */
  calm(): void
  close(): void
}
