import { setTimeout as sleep } from "node:timers/promises";
import type { CycleClient, CycleStatus } from "./cycle.ts";

/** Pauses between two questions, in milliseconds: each is twice as long as the one before. */
const pauses = { first: 25, longest: 1000 };

/** Asks until the load has ended (specification 3.5). A service that holds the answer back (A.11) is asked again at once. */
export async function pollUntilDone(cycle: CycleClient, signal: AbortSignal): Promise<CycleStatus> {
  for (let pause = pauses.first; ; pause = Math.min(pauses.longest, pause * 2)) {
    const asked = performance.now();
    const status = await cycle.status(signal);
    if (status.status.code !== "OK" || status.internal_stage === "DONE") return status;
    const left = pause - (performance.now() - asked);
    if (left <= 0) continue;
    await sleep(left, undefined, { signal }).catch(() => {
      signal.throwIfAborted();
    });
  }
}
