import { Option } from "commander";
import type { Command } from "commander";
import { common, help, withLimit, limitOf, withFor, allSyncs, parseLimits } from "./flags.ts";
import type { CommonOptions, LimitOptions, OverrideOptions, ForOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { load, chosenSyncs } from "#daemon/context.ts";
import { command, forOptions } from "#commands.ts";
import { shortDigest } from "#plan/change.ts";
import type { DriftRules, Overridable } from "#plan/limits.ts";
import { seenPushes } from "#sync/planning/pushes.ts";
import { run } from "#sync/run.ts";
import type { Report, RunResult } from "#sync/context.ts";
import type { Context } from "#daemon/context.ts";
import { exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { withRunDocuments } from "./run-output.ts";
import { withSync } from "./syncs.ts";

export function declare(command: Command, runner: Runner): void {
  withFor(withLimit(common(command).argument("[sync]", allSyncs)))
    .option("--override <limits>", "plan as if these limits were not set, like deletes,updates", parseLimits)
    .addOption(
      new Option("--compare <file>", "show what would change if this configuration replaced FILE").conflicts("for"),
    );
  help(command, {
    examples: [
      "rollcall plan",
      "rollcall plan staff --all",
      "rollcall plan staff --for ada --for group:Sales",
      "rollcall plan --config new.yaml --compare rollcall.yaml",
    ],
    exits: { 0: "no changes", 2: "there are changes", 3: "a limit would hold some or all of them" },
  }).action(
    (
      sync: string | undefined,
      options: CommonOptions & LimitOptions & OverrideOptions & ForOptions & { compare?: string },
    ) =>
      runner.runWithContext(options, async (context) => {
        const limit = limitOf(options);
        if (options.compare === undefined)
          return plan(context, sync, { limit, overrides: options.override, for: options.for });
        const { compare } = await import("./compare.ts");
        return compare(context, await load(options.compare, runner.composition), sync, { limit });
      }),
  );
}

export interface PlanOptions {
  readonly limit?: number | undefined;
  /** Limits to ignore, to see what they prevent. */
  readonly overrides?: readonly Overridable[] | undefined;
  /** Names of users and groups: only these. */
  readonly for?: readonly string[] | undefined;
}

/**
 * `rollcall plan [sync]`: shows what a run would change, and changes nothing. Exit code 2 when there are changes, 3 when
 * a limit would hold them, or some of them.
 */
export async function plan(context: Context, name: string | undefined, options: PlanOptions): Promise<ExitCode> {
  const { overrides = [], for: people } = options;
  const override = overrides.length === 0 ? [] : ["--override", overrides.join(",")];
  const syncs = chosenSyncs(context.configuration, name, people);
  return withRunDocuments(context, syncs, options, async ({ warn, report, end }, sync) => {
    const { outcome, waiting, digest, adopted } = await dryRun(context, sync, { overrides, for: people, warn, report });
    const next = command("apply", sync, ...forOptions(people), ...override, "--digest", shortDigest(digest));
    await end({ outcome, next: outcome === "planned" || adopted > 0 ? next : undefined });
    if (waiting.length > 0) return exitCodes.held;
    return outcome === "no change" ? exitCodes.done : exitCodes.changes;
  });
}

export interface DryRunOptions {
  readonly digest?: string | undefined;
  readonly overrides?: readonly Overridable[];
  readonly for?: readonly string[] | undefined;
  /** Plans as if the sync had this policy. */
  readonly drift?: DriftRules["policy"];
  readonly report?: (report: Report) => Promise<void>;
  /** Default: they are shown on the terminal. */
  readonly warn?: (message: string) => void;
}

/** Runs one sync of the configuration without changing anything, with progress on the terminal. */
export function dryRun(context: Context, name: string, options: DryRunOptions): Promise<RunResult> {
  return withSync(context, name, async (sync, { state, ...looking }) => {
    const { drift: policy = sync.drift.policy } = options;
    return run(
      { ...sync, drift: { ...sync.drift, policy } },
      {
        ...looking,
        ...options,
        apply: false,
        files: state.files,
        seenPushes: seenPushes((await state.journal()).runs, name),
      },
    );
  });
}
