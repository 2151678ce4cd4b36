import { join } from "node:path";
import type { Configuration } from "#config/configuration.ts";
import { keptChanges } from "#control/changes.ts";
import { quoteIfNeeded } from "#text.ts";
import type { RunRecord } from "#sync/record.ts";
import { daemonFolder } from "#cli/context.ts";

const marks = { delete: "-", create: "+", update: "~" } as const;

/** The first principals that a run would change, a line each, deletions first: `- user zoe`. */
export async function changedNames(
  configuration: Configuration,
  run: RunRecord,
  most: number,
): Promise<readonly string[]> {
  const folder = daemonFolder(configuration);
  const files = { file: join(folder, "runs", run.id, "changes.parquet"), spill: join(folder, "notices.spill") };
  const lines: string[] = [];
  for (const action of ["delete", "create", "update"] as const) {
    if (run.counts === undefined || run.counts.users[action] + run.counts.groups[action] === 0) continue;
    for await (const { kind, name } of keptChanges(run, files, { actions: [action] })) {
      lines.push(`${marks[action]} ${kind} ${quoteIfNeeded(name)}`);
      if (lines.length >= most) return lines;
    }
  }
  return lines;
}
