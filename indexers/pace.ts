/** What tells of its changes is polled this many times less often: it may have stopped telling without notice. */
export const slower = 5
