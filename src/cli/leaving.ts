import type { Command } from "commander";
import { leaversCsv, leaversOf } from "#daemon/leavers.ts";
import type { StagedLeaver, SyncLeavers } from "#daemon/leavers.ts";
import { chosenSyncs } from "#daemon/context.ts";
import type { Context } from "#daemon/context.ts";
import { exitCodes, worstOf } from "#daemon/output.ts";
import type { ExitCode, Output } from "#daemon/output.ts";
import { painter } from "#plan/render/text.ts";
import { formatNumber, formatPrincipals, visible } from "#text.ts";
import { exactly } from "#times.ts";
import { writeTable } from "./format.ts";
import { allSyncs, common, help } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";

export function declare(command: Command, runner: Runner): void {
  common(command).argument("[sync]", allSyncs).option("--csv", "list all of them as CSV");
  help(command, {
    examples: ["rollcall leaving", "rollcall leaving staff --csv > leaving.csv"],
    exits: { 0: "done" },
  }).action((sync: string | undefined, options: CommonOptions & { readonly csv?: boolean }) =>
    runner.runWithContext(options, (context) => leaving(context, sync, options)),
  );
}

/**
 * `rollcall leaving [sync]`: who is gone from the sources, whether they are suspended, and what becomes of them, as of the last
 * runs. With `--csv`: a row for each, all syncs in one table. With `--json`: `{"leaving": [{"sync", "target", "leavers":
 * [{"kind", "name", "since", "stage": "grace" | "suspended", "suspendedOn"?, "deletedOn"?}]} | {"sync", "target", "error"}]}`,
 * times in ISO 8601; without `deletedOn`, nobody deletes them.
 */
async function leaving(
  context: Context,
  name: string | undefined,
  { csv = false }: { readonly csv?: boolean },
): Promise<ExitCode> {
  const { configuration, output, interruption } = context;
  const syncs = chosenSyncs(configuration, name);
  const found = await leaversOf(configuration, syncs, { signal: interruption.stop });
  if (output.json) await output.write(`${JSON.stringify({ leaving: found })}\n`);
  else if (csv) await writeCsv(output, found);
  else for (const each of found) await writeText(output, each);
  const codes = found.map((each): ExitCode => ("error" in each ? exitCodes.failed : exitCodes.done));
  return worstOf(codes);
}

async function writeCsv(output: Output, found: readonly SyncLeavers[]): Promise<void> {
  for (const each of found) if ("error" in each) output.say(`${each.sync}: ${each.error.message}`);
  await output.write([...leaversCsv(found)].join(""), "data");
}

/** How many are shown as text. */
const most = 1000;

async function writeText(output: Output, found: SyncLeavers): Promise<void> {
  const title = painter(output.colour)("bold", visible(`${found.sync} → ${found.target}`));
  if ("error" in found) {
    output.say(`${found.sync}: ${found.error.message}`);
    return;
  }
  const { leavers } = found;
  const users = leavers.filter(({ kind }) => kind === "user").length;
  // Before its first run, a sync knows of nobody who is gone.
  const some = `${formatPrincipals(users, leavers.length - users)} gone from the sources`;
  await output.write(`${title}: ${leavers.length === 0 ? "nobody is in grace or suspended" : some}\n`);
  if (leavers.length === 0) return;
  const names = ["kind", "name", "gone since", "stage", "next"];
  const now = Date.now();
  const cells = leavers
    .slice(0, most)
    .map((each) => [each.kind, each.name, exactly(each.since), stageNames[each.stage], nextWords(each, now)]);
  await writeTable(output, names, cells, { flexible: [1, 4], expendable: [2] });
  if (leavers.length > most) await output.write(`… and ${formatNumber(leavers.length - most)} more: --csv lists all\n`);
}

const stageNames = { grace: "in grace", suspended: "suspended" } as const;

/** `suspended on 2026-12-01 00:00:00Z, then deleted on 2027-03-01 00:00:00Z`. */
function nextWords({ suspendedOn, deletedOn }: StagedLeaver, now: number): string {
  const at = (time: string): string => (Date.parse(time) <= now ? "by the next run" : `on ${exactly(time)}`);
  const deleted = deletedOn === undefined ? "never deleted" : `deleted ${at(deletedOn)}`;
  return suspendedOn === undefined ? deleted : `suspended ${at(suspendedOn)}, ${deleted}`;
}
