import { errorDocument } from "#errors.ts";
import type { Overridable } from "#plan/limits.ts";
import { chosenSyncs } from "#cli/context.ts";
import type { Context } from "#cli/context.ts";
import { openDocuments } from "./documents.ts";
import { dryRun } from "./dry-run.ts";
import { exitCodeOf, exitCodes, worstOf } from "#cli/output.ts";
import type { ExitCode } from "#cli/output.ts";

export interface PlanOptions {
  readonly limit?: number;
  /** Limits that are passed over, to see what they keep from happening. */
  readonly overrides?: readonly Overridable[];
}

/**
 * `rollcall plan [sync]`: shows what a run would change, and changes nothing. Exit code 2 when there are changes, 3 when
 * a limit would hold it, or a part of it.
 */
export async function plan(context: Context, name: string | undefined, options: PlanOptions): Promise<ExitCode> {
  const documents = openDocuments(context.output, options);
  const codes: ExitCode[] = [];
  for (const sync of chosenSyncs(context.configuration, name)) {
    const { warn, report, end, fail } = documents.next(sync);
    try {
      const { overrides = [] } = options;
      const { outcome, waiting } = await dryRun(context, sync, { overrides, warn, report });
      await end({ outcome });
      codes.push(outcome === "no change" ? exitCodes.done : exitCodes.changes);
      if (waiting.length > 0) codes.push(exitCodes.held);
    } catch (error) {
      await fail(errorDocument(error));
      codes.push(exitCodeOf(error));
      if (context.interruption.stop.aborted) break;
    }
  }
  await documents.end();
  return worstOf(codes);
}
