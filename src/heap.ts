import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

let collect: ((options: NodeJS.GCOptions) => Promise<void>) | undefined;

/**
 * Returns memory of JavaScript's heap that is no longer used to the system. V8 would do so too, but only some ten seconds after
 * much has been allocated. Blocks the event loop for some 50 ms: call it while DuckDB is at work.
 */
export async function shrinkHeap(): Promise<void> {
  if (collect === undefined) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as NonNullable<typeof collect>;
  }
  // Only this kind shrinks the young generation, too.
  await collect({ execution: "async", flavor: "last-resort", type: "major" });
}
