import { createInterface } from "node:readline/promises";
import { InputError } from "#errors.ts";
import type { Overridable, Measure } from "#plan/limits.ts";
import { chosenSyncs } from "./context.ts";
import type { Context } from "./context.ts";
import { openDocuments } from "./documents.ts";
import type { RunDocument } from "./documents.ts";
import { execute } from "./execute.ts";
import type { Execution } from "./execute.ts";
import { exportAfter } from "./export-target.ts";
import { exitCodeOf, exitCodes, worstOf } from "./output.ts";
import type { ExitCode } from "./output.ts";

export interface ApplyOptions {
  readonly limit?: number;
  /** Do not ask at a terminal. */
  readonly yes: boolean;
  /** The plan that was shown, and nothing else, is applied. */
  readonly digest?: string;
  /** Limits that do not count for that plan. */
  readonly overrides?: readonly Overridable[];
}

/**
 * `rollcall apply [sync]`: shows what a run changes, applies it and proves that it arrived. At a terminal it asks
 * first, and then applies exactly what was shown or nothing. What is configured to be exported is, then. An override
 * of limits is for one plan, which its digest names. Exit code 3 when a limit held the run, or a part of it.
 * @throws {InputError} when an override does not say for which plan it is
 */
export async function apply(context: Context, name: string | undefined, options: ApplyOptions): Promise<ExitCode> {
  const chosen = chosenSyncs(context.configuration, name);
  refuseUnnamedPlan(chosen, options);
  const documents = openDocuments(context.output, options);
  const codes: ExitCode[] = [];
  for (const sync of chosen) {
    const document = documents.next(sync);
    try {
      const ask = context.output.interactive && !options.yes;
      const { outcome, waiting } = await (ask ? applyAfterAsking : applyShown)(context, sync, document, options);
      await document.ended(outcome);
      const exported = outcome === "declined" ? undefined : await exportAfter(context, sync, outcome);
      await document.end(exported);
      codes.push(exported?.problem === undefined ? exitCodes.done : exitCodes.failed);
      if (waiting.length > 0) codes.push(exitCodes.held);
    } catch (error) {
      await document.fail(error);
      codes.push(exitCodeOf(error));
      if (context.interruption.stop.aborted) break;
    }
  }
  await documents.end();
  return worstOf(codes);
}

type Result = { readonly outcome: Parameters<RunDocument["ended"]>[0]; readonly waiting: readonly Measure[] };

async function applyShown(
  context: Context,
  sync: string,
  { warn, report }: RunDocument,
  options: ApplyOptions,
): Promise<Result> {
  return execute(context, sync, { ...chosenPlan(options), apply: true, warn, report });
}

async function applyAfterAsking(
  context: Context,
  sync: string,
  { warn, report }: RunDocument,
  options: ApplyOptions,
): Promise<Result> {
  const chosen = chosenPlan(options);
  const shown = await execute(context, sync, { ...chosen, apply: false, warn, report });
  if (shown.outcome === "planned" && !(await confirmed(context))) return { outcome: "declined", waiting: [] };
  return execute(context, sync, { ...chosen, apply: true, digest: shown.digest, warn: () => {} });
}

function chosenPlan({ digest, overrides = [] }: ApplyOptions): Pick<Execution, "digest" | "overrides"> {
  return { overrides, ...(digest === undefined ? {} : { digest }) };
}

function refuseUnnamedPlan(syncs: readonly string[], { digest, overrides = [] }: ApplyOptions): void {
  if (overrides.length > 0 && digest === undefined) {
    throw new InputError(
      "--override is for one plan: name it with --digest. `rollcall plan --json` has it as `digest`, and so has what said that the run is held",
    );
  }
  if (digest !== undefined && syncs.length > 1)
    throw new InputError(`--digest is the plan of one sync: name it, one of ${syncs.join(", ")}`);
}

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
