import { isOpen } from "#state/record.ts";
import type { Actor, RunRecord } from "#state/record.ts";
import { findRun, timestamp } from "./context.ts";
import type { Context } from "./context.ts";
import { expire, writeEnd } from "./finish.ts";
import { notOpen } from "./refusals.ts";

export async function reject(
  context: Context,
  id: string,
  { by, reason }: { readonly by: Actor; readonly reason?: string | undefined },
): Promise<RunRecord> {
  await expire(context);
  const run = findRun(context, id);
  if (!isOpen(run)) throw notOpen(run, "rejected");
  const at = timestamp(context);
  await context.store.audit.append({ event: "rejected", by, sync: run.sync, run: id, digest: run.digest, reason });
  const decision = { decision: "rejected", at, by, digest: run.digest ?? "", reason } as const;
  return writeEnd(context, { ...run, state: "rejected", endedAt: at, decisions: [...run.decisions, decision] });
}
