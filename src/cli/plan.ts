import { chosenSyncs } from "./context.ts";
import type { Context } from "./context.ts";
import { openDocuments } from "./documents.ts";
import { execute } from "./execute.ts";
import { exitCodeOf, exitCodes, worstOf } from "./output.ts";
import type { ExitCode } from "./output.ts";

/** `rollcall plan [sync]`: shows what a run would change, and changes nothing. Exit code 2 when there are changes. */
export async function plan(context: Context, name: string | undefined, options: { limit?: number }): Promise<ExitCode> {
  const documents = openDocuments(context.output, options);
  const codes: ExitCode[] = [];
  for (const sync of chosenSyncs(context.configuration, name)) {
    const { warn, report, ended, end, fail } = documents.next(sync);
    try {
      const { outcome } = await execute(context, sync, { apply: false, warn, report });
      await ended(outcome);
      await end();
      codes.push(outcome === "no change" ? exitCodes.done : exitCodes.changes);
    } catch (error) {
      await fail(error);
      codes.push(exitCodeOf(error));
      if (context.interruption.stop.aborted) break;
    }
  }
  await documents.end();
  return worstOf(codes);
}
