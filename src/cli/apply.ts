import { createInterface } from "node:readline/promises";
import { chosenSyncs } from "./context.ts";
import type { Context } from "./context.ts";
import { openDocuments } from "./documents.ts";
import type { RunDocument } from "./documents.ts";
import { execute } from "./execute.ts";
import { exportAfter } from "./export-target.ts";
import { exitCodeOf, exitCodes, worstOf } from "./output.ts";
import type { ExitCode } from "./output.ts";

export interface ApplyOptions {
  readonly limit?: number;
  /** Do not ask at a terminal. */
  readonly yes: boolean;
}

/**
 * `rollcall apply [sync]`: shows what a run changes, applies it and proves that it arrived. At a terminal it asks
 * first, and then applies exactly what was shown or nothing. What is configured to be exported is, then.
 */
export async function apply(context: Context, name: string | undefined, options: ApplyOptions): Promise<ExitCode> {
  const documents = openDocuments(context.output, options);
  const codes: ExitCode[] = [];
  for (const sync of chosenSyncs(context.configuration, name)) {
    const document = documents.next(sync);
    try {
      const ask = context.output.interactive && !options.yes;
      const outcome = await (ask ? applyAfterAsking(context, sync, document) : applyShown(context, sync, document));
      await document.ended(outcome);
      const exported = outcome === "declined" ? undefined : await exportAfter(context, sync, outcome);
      await document.end(exported);
      codes.push(exported?.problem === undefined ? exitCodes.done : exitCodes.failed);
    } catch (error) {
      await document.fail(error);
      codes.push(exitCodeOf(error));
      if (context.interruption.stop.aborted) break;
    }
  }
  await documents.end();
  return worstOf(codes);
}

async function applyShown(context: Context, sync: string, { warn, report }: RunDocument): Promise<Outcome> {
  const { outcome } = await execute(context, sync, { apply: true, warn, report });
  return outcome;
}

async function applyAfterAsking(context: Context, sync: string, { warn, report }: RunDocument): Promise<Outcome> {
  const shown = await execute(context, sync, { apply: false, warn, report });
  if (shown.outcome === "planned" && !(await confirmed(context))) return "declined";
  const { outcome } = await execute(context, sync, { apply: true, digest: shown.digest, warn: () => {} });
  return outcome;
}

type Outcome = Parameters<RunDocument["ended"]>[0];

async function confirmed({ interruption, output }: Context): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // While it asks, the keys come here: Ctrl-C is no signal then.
  terminal.on("SIGINT", () => process.emit("SIGINT"));
  try {
    const answer = await terminal.question("Apply these changes? [y/N] ", { signal: interruption.stop });
    return /^y(es)?$/i.test(answer.trim());
  } catch {
    output.say("");
    interruption.stop.throwIfAborted();
    // Ctrl-D: no answer is no yes.
    return false;
  } finally {
    terminal.close();
  }
}
