import { InvalidArgumentError } from "commander";
import type { Command } from "commander";
import { common, help, withLimit, limitOf, withNotify, withFor, allSyncs, parseLimits } from "./flags.ts";
import type { CommonOptions, LimitOptions, NotifyOptions, OverrideOptions, ForOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { someDigest } from "#plan/change.ts";
import { chosenSyncs, interruptMessages, localActor, progressOf } from "#daemon/context.ts";
import type { Context } from "#daemon/context.ts";
import { withCoordinator } from "#cli/coordinator.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { approvalQuestion, confirmed, showRun, withRunDocuments } from "./run-output.ts";
import type { RunDocument } from "./run-output.ts";
import { InputError } from "#errors.ts";
import type { Overridable } from "#plan/limits.ts";

export function declare(command: Command, runner: Runner): void {
  withNotify(withFor(withLimit(common(command).argument("[sync]", allSyncs))))
    .option("-y, --yes", "do not ask at a terminal")
    .option("--digest <digest>", "apply only the plan with this digest (or its first digits)", parseDigest)
    .option("--override <limits>", "ignore these limits for that plan only, like deletes,updates", parseLimits);
  help(command, {
    examples: [
      "rollcall apply",
      "rollcall apply staff --yes",
      "rollcall apply staff --digest 5d41402abc4b",
      "rollcall apply staff --for ada",
    ],
    exits: {
      0: "applied and verified, or nothing to do",
      3: "held by a limit, waiting for approval, or not the plan of --digest",
    },
  }).action((sync: string | undefined, flags: ApplyFlags) =>
    runner.runWithContext(
      flags,
      (context) => {
        const { digest, override: overrides, for: people, yes = false, notify } = flags;
        return apply({ ...context, notify }, sync, { limit: limitOf(flags), overrides, digest, yes, for: people });
      },
      interruptMessages.apply,
    ),
  );
}

type ApplyFlags = CommonOptions &
  LimitOptions &
  OverrideOptions &
  ForOptions &
  NotifyOptions & { readonly yes?: boolean; readonly digest?: string };

/** The digest of a plan, or the beginning of it that a plan shows. */
function parseDigest(value: string): string {
  const digest = value.trim().toLowerCase();
  if (!someDigest.test(digest))
    throw new InvalidArgumentError("expected at least the 12 hexadecimal digits that `rollcall plan` shows.");
  return digest;
}

export interface ApplyOptions {
  readonly limit?: number | undefined;
  /** Do not ask at a terminal. */
  readonly yes: boolean;
  /** The digest of the plan that was shown: that plan is applied, or nothing. */
  readonly digest?: string | undefined;
  /** Limits to ignore for that plan. */
  readonly overrides?: readonly Overridable[] | undefined;
  /** Names of users and groups: only these. */
  readonly for?: readonly string[] | undefined;
}

/**
 * `rollcall apply [sync]`: shows what a run changes, applies it and verifies that it arrived. At a terminal it asks
 * first, and then applies exactly what was shown or nothing; that is an approval, and so is `--digest`. Without one, the
 * run of a sync that needs approval stays pending. Afterwards it exports, if that is configured. Overriding limits is for
 * one plan, named by its digest. Exit code 3 when a limit held the run, or a part of it, or it waits for approval.
 * @throws {InputError} when limits are overridden without a digest
 */
export async function apply(context: Context, name: string | undefined, options: ApplyOptions): Promise<ExitCode> {
  const chosen = chosenSyncs(context.configuration, name, options.for);
  refuseUnnamedPlan(chosen, options);
  return withRunDocuments(context, chosen, options, (document, sync) => applyOne(context, sync, document, options));
}

async function applyOne(
  context: Context,
  sync: string,
  document: RunDocument,
  options: ApplyOptions,
): Promise<ExitCode> {
  const { overrides = [], for: people } = options;
  let { digest } = options;
  let { report } = document;
  if (context.output.interactive && !options.yes) {
    const { dryRun } = await import("./plan.ts");
    const shown = await dryRun(context, sync, { digest, overrides, for: people, ...document });
    const target = context.configuration.syncs[sync]?.to ?? sync;
    if (shown.outcome === "planned" && !(await confirmed(context, approvalQuestion({ ...shown, target })))) {
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
    digest,
    for: people,
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
      "--override is for one plan: name it with --digest; `rollcall plan` with the same --override prints the command",
    );
  }
  if (digest !== undefined && syncs.length > 1)
    throw new InputError(`--digest is the plan of one sync: add its name, one of ${syncs.join(", ")}`);
}
