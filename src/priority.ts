import { setPriority } from "node:os";

/**
 * Lets everybody else have the processors first, where the system allows it.
 * @param niceness 0 to 19; on Linux it is the thread's, and that of what it starts from then on, elsewhere the process's
 * @param pid another process. Default: this one
 */
export function yieldProcessors(niceness: number, pid = 0): void {
  try {
    setPriority(pid, niceness);
  } catch {
    // The process may have ended, or the system refuses.
  }
}
