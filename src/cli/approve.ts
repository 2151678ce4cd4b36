import { actions } from "#plan/change.ts";
import type { Action } from "#plan/change.ts";
import { InvalidArgumentError } from "commander";
import type { Command } from "commander";
import {
  common,
  help,
  withLimit,
  limitOf,
  withNotify,
  waitingRun,
  parseCauses,
  parseLimits,
  listOfWords,
} from "./flags.ts";
import type { CommonOptions, LimitOptions, NotifyOptions, OverrideOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import type { Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import { checkCounts } from "#sync/coordinator/approvals.ts";
import { checkApprovable } from "#sync/coordinator/refusals.ts";
import { interruptMessages, localActor, progressOf } from "#daemon/context.ts";
import type { Context } from "#daemon/context.ts";
import { withCoordinator } from "#cli/coordinator.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { InputError } from "#errors.ts";
import { approvalQuestion, askedReason, confirmed, showRun, showStoredPlan, withRunDocument } from "./run-output.ts";
import { chosenRun, knownRuns } from "./known-runs.ts";

export function declare(command: Command, runner: Runner): void {
  withNotify(withLimit(common(command).argument("<run>", waitingRun)))
    .option("-y, --yes", "do not ask at a terminal")
    .option("--only <actions>", "apply only a part: creates, updates, suspends, reactivates, deletes", parseOnly)
    .option("--except <principal>", "leave out this user, or group:NAME; may be repeated", parsePrincipals)
    .option("--these <principal>", "apply only this user, or group:NAME; may be repeated", parsePrincipals)
    .option("--only-cause <causes>", "apply only what these causes explain, like c1,c3", parseCauses)
    .option("--except-cause <causes>", "leave out what these causes change", parseCauses)
    .option("--override <limits>", "ignore these limits for this plan only", parseLimits)
    .option("--reason <text>", "why");
  help(command, {
    examples: [
      "rollcall approve 20261121-0800",
      "rollcall approve 20261121-0800 --override deletes --reason 'the Berlin office closed'",
      "rollcall approve 20261121-0800 --only creates,updates --except ada",
    ],
    exits: {
      0: "applied and verified",
      3: "the plan has changed, or a limit holds it",
    },
  }).action((run: string, flags: ApproveFlags) =>
    runner.runWithContext(
      flags,
      (context) => {
        const { only, except, these, onlyCause, exceptCause, override: overrides, yes = false, reason, notify } = flags;
        const selection = { only, except, these, onlyCauses: onlyCause, exceptCauses: exceptCause };
        return approve({ ...context, notify }, run, { limit: limitOf(flags), overrides, selection, reason, yes });
      },
      interruptMessages.apply,
    ),
  );
}

type ApproveFlags = CommonOptions &
  LimitOptions &
  OverrideOptions &
  NotifyOptions &
  Pick<Selection, "only" | "except" | "these"> & {
    readonly onlyCause?: readonly string[];
    readonly exceptCause?: readonly string[];
    readonly yes?: boolean;
    readonly reason?: string;
  };

/** `creates,updates` */
function parseOnly(value: string, before: NonNullable<Selection["only"]> = []): NonNullable<Selection["only"]> {
  const words = listOfWords(actions.map((action) => `${action}s` as const))(value);
  return [...before, ...words.map((word) => word.slice(0, -1) as Action)];
}

/** `ada`, `user:ada` or `group:Old team`: one principal, because a name may contain commas. */
function parsePrincipals(
  value: string,
  before: NonNullable<Selection["except"]> = [],
): NonNullable<Selection["except"]> {
  const [, kind = "user", name = ""] = /^(?:(user|group):)?(.+)$/s.exec(value) ?? [];
  if (name === "") throw new InvalidArgumentError("expected the name of a user, or group:NAME.");
  return [...before, { kind: kind === "group" ? "group" : "user", name }];
}

export interface ApproveOptions {
  readonly limit?: number | undefined;
  /** Do not ask at a terminal. */
  readonly yes: boolean;
  readonly overrides?: readonly Overridable[] | undefined;
  readonly selection: Selection;
  readonly reason?: string | undefined;
}

/**
 * `rollcall approve RUN`: applies what a pending or held run has planned, or a part of it; nothing else. At a terminal it
 * shows the plan and asks first, without holding a lock. Exit code 3 when the changes are no longer those, or a limit
 * holds them.
 */
export async function approve(context: Context, id: string, options: ApproveOptions): Promise<ExitCode> {
  const { overrides = [], selection } = options;
  const run = chosenRun(await knownRuns(context), id);
  const asks = context.output.interactive && !options.yes;
  return withRunDocument(context, run, options, async (document) => {
    const approval = { by: localActor(), overrides, selection, reason: options.reason, digest: run.digest };
    if (asks) {
      checkApprovable(run, approval);
      checkCounts(run, approval.by, selection);
      await showStoredPlan(context, run, document);
      if (!(await confirmed(context, approvalQuestion(run, selection)))) {
        await document.end({ outcome: "declined", run: run.id });
        return exitCodes.done;
      }
      // The console asks for it, too: why a limit does not count is what everybody wants to know later.
      if (overrides.length > 0 && options.reason === undefined) approval.reason = await askedReason(context);
      if (approval.reason === "") throw new InputError("nothing was approved: an override needs a reason");
    }
    return withCoordinator(context, async (coordinator) => {
      const begun = await coordinator.approve(run.id, approval, { progress: progressOf(context, run.sync) });
      return showRun(context, coordinator, document, { begun, isShown: () => asks });
    });
  });
}
