import { chosenSyncs, localActor } from "./context.ts";
import type { Context } from "./context.ts";
import { withCoordinator } from "./coordinator.ts";
import { exitCodeOf, exitCodes, worstOf } from "./output.ts";
import type { ExitCode } from "./output.ts";
import { confirmed, openDocuments, showRun } from "./run-output.ts";
import type { RunDocument } from "./run-output.ts";
import { errorDocument, InputError } from "#errors.ts";
import type { Overridable } from "#plan/limits.ts";
import { dryRun, progressOf } from "./plan.ts";

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
 * first, and then applies exactly what was shown or nothing; that is an approval, as `--digest` is. Without, a sync that
 * wants one is left pending. What is configured to be exported is, then. An override of limits is for one plan, which
 * its digest names. Exit code 3 when a limit held the run, or a part of it, and when it awaits approval.
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
      codes.push(await applyOne(context, sync, document, options));
    } catch (error) {
      await document.fail(errorDocument(error));
      codes.push(exitCodeOf(error));
    }
    if (context.interruption.stop.aborted) break;
  }
  await documents.end();
  return worstOf(codes);
}

async function applyOne(
  context: Context,
  sync: string,
  document: RunDocument,
  options: ApplyOptions,
): Promise<ExitCode> {
  const { overrides = [] } = options;
  let { digest } = options;
  let { report } = document;
  if (context.output.interactive && !options.yes) {
    const chosen = digest === undefined ? {} : { digest };
    const shown = await dryRun(context, sync, { ...chosen, overrides, ...document });
    if (shown.outcome === "planned" && !(await confirmed(context, "Apply these changes?"))) {
      await document.end({ outcome: "declined" });
      return exitCodes.done;
    }
    ({ digest } = shown);
    report = async () => {};
  }
  const request = {
    sync,
    cause: "demand",
    by: localActor(),
    overrides,
    ...(digest === undefined ? {} : { digest }),
  } as const;
  return withCoordinator(context, async (coordinator) => {
    let isShown = report !== document.report;
    const begun = coordinator.begin(request, {
      progress: progressOf(context, sync),
      warn: document.warn,
      report: async (found) => {
        isShown = true;
        await report(found);
      },
    });
    return showRun(context, coordinator, document, { begun: await begun, isShown: () => isShown });
  });
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
