import type { Command } from "commander";
import { common, help, allSyncs } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { chosenSyncs } from "#daemon/context.ts";
import type { Cause } from "#plan/causes.ts";
import type { Change } from "#plan/change.ts";
import { changeLine, painter } from "#plan/render/text.ts";
import { driftNotes } from "#sync/planning/notes.ts";
import type { Report } from "#sync/context.ts";
import { pluralize, visible } from "#text.ts";
import type { Context } from "#daemon/context.ts";
import { exitCodeOf, exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { dryRun } from "./plan.ts";
import { eachSync, failuresTo } from "./syncs.ts";

export function declare(command: Command, runner: Runner): void {
  help(common(command).argument("[sync]", allSyncs), {
    examples: ["rollcall drift", "rollcall drift staff --json"],
    exits: { 0: "no drift", 2: "there is drift" },
  }).action((sync: string | undefined, options: CommonOptions) =>
    runner.runWithContext(options, (context) => drift(context, sync)),
  );
}

/**
 * `rollcall drift [sync]`: what somebody changed in the target while the sources say what they said before, and what a
 * run would do about it; changes nothing. With `--json`: `{"drift": [{"sync", "target", "causes", "changes"} | {"sync", "error"}]}`.
 * Exit code 2 when there is any.
 */
export async function drift(context: Context, name: string | undefined): Promise<ExitCode> {
  const { configuration, output } = context;
  const documents: object[] = [];
  const failed = failuresTo(output, output.json ? documents : undefined);
  const code = await eachSync(context, chosenSyncs(configuration, name), failed, async (sync) => {
    let any = false;
    // A plan that a limit holds is shown all the same.
    await dryRun(context, sync, {
      // Whatever a run would do about it.
      drift: "revert",
      report: async (report) => {
        const causes = (report.causes ?? []).filter(({ kind }) => kind === "drift");
        const changes = await changesOf(report, causes);
        any = changes.length > 0;
        if (output.json) documents.push({ sync, target: report.target, causes, changes });
        else await output.write(textOf(context, report, changes, configuration.syncs[sync]?.drift.policy));
      },
    }).catch((error: unknown) => {
      if (exitCodeOf(error) !== exitCodes.held) throw error;
    });
    return any ? exitCodes.changes : exitCodes.done;
  });
  if (output.json) await output.write(`${JSON.stringify({ drift: documents })}\n`, "json");
  return code;
}

/** The changes with a cause among these. */
async function changesOf({ plan }: Report, causes: readonly Cause[]): Promise<Change[]> {
  if (causes.length === 0) return [];
  const ids = new Set(causes.map(({ id }) => id));
  const found: Change[] = [];
  for await (const change of plan.changes()) if (change.causes?.some((id) => ids.has(id))) found.push(change);
  return found;
}

const willBe = { revert: "a run takes it back", leave: "a run leaves it", hold: "it holds every run" } as const;

function textOf(
  { output }: Context,
  { sync, target, drift }: Report,
  changes: readonly Change[],
  policy: keyof typeof willBe = "revert",
): string {
  const paint = painter(output.colour);
  const title = paint("bold", visible(`${sync} → ${target}`));
  const rest = driftNotes(drift)
    .map(({ text }) => `${text}\n`)
    .join("");
  if (changes.length === 0) return `${title}: no drift\n${rest}`;
  const lines = changes.map((change) => `  ${changeLine(change, paint, (output.width ?? 100) - 2)}\n`).join("");
  return `${title}: ${pluralize(changes.length, "principal")} changed in the target from outside; ${willBe[policy]}\n${lines}${rest}`;
}
