import { openBoth } from "#daemon/wiring.ts";
import { basename } from "node:path";
import { forCaller } from "#times.ts";
import type { Configuration } from "#config/configuration.ts";
import { errorDocument, InputError } from "#errors.ts";
import { renderJson } from "#plan/render/json.ts";
import { changes, wordsOfComparison as words } from "#plan/change.ts";
import { renderText } from "#plan/render/text.ts";
import { compare as compareSyncs } from "#sync/explain/compare.ts";
import type { Comparison } from "#sync/explain/compare.ts";
import { mapNotes, noteLines } from "#plan/note.ts";
import { notesOf } from "#sync/planning/notes.ts";
import { chosenSyncs, progressOf } from "#daemon/context.ts";
import type { Context } from "#daemon/context.ts";
import { readStateForPlan } from "#daemon/data-folder.ts";
import { describeError, exitCodes } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { eachSync } from "./syncs.ts";

/**
 * `rollcall plan [sync] --compare OLD`: who enters, who leaves and what changes if the configuration replaces another one,
 * with the same live data. With `--json`: `{"comparisons": [{"sync", "notes", "plan"} | {"sync", "error"}]}`, where `plan`
 * is the output of `renderJson`, in which entering is `create`. Exit code 2 when anything differs.
 */
export async function compare(
  context: Context,
  old: Configuration,
  name: string | undefined,
  options: { readonly limit?: number | undefined },
): Promise<ExitCode> {
  const { configuration, output } = context;
  let written = 0;
  const opening = (sync: string): string => `${written++ === 0 ? "" : ","}\n{"sync":${JSON.stringify(sync)}`;
  if (output.json) await output.write('{"comparisons":[');
  const failed = async (sync: string, error: unknown): Promise<void> => {
    if (!output.json) return output.say(`${sync}: ${describeError(error)}`);
    await output.write(`${opening(sync)},"error":${JSON.stringify(errorDocument(error))}}`);
  };
  const code = await eachSync(context, chosenSyncs(configuration, name), failed, async (sync) => {
    let found: ExitCode = exitCodes.done;
    await compareOne(context, old, sync, async ({ plan, desired }) => {
      const notes = notesOf(desired);
      if (changes(plan.counts) > 0) found = exitCodes.changes;
      const title = `${sync}: ${basename(old.file)} → ${basename(configuration.file)}`;
      if (output.json) await output.write(`${opening(sync)},"notes":${JSON.stringify(noteLines(notes))},"plan":`);
      const { colour, width } = output;
      const parts = output.json
        ? renderJson(plan)
        : renderText(plan, { ...options, title, colour, width, notes: mapNotes(notes, forCaller), words });
      for await (const part of parts) await output.write(part);
      if (output.json) await output.write("}");
    });
    return found;
  });
  if (output.json) await output.write("\n]}\n");
  return code;
}

async function compareOne(
  context: Context,
  old: Configuration,
  name: string,
  report: (comparison: Comparison) => Promise<void>,
): Promise<void> {
  const { configuration, interruption, output } = context;
  if (old.syncs[name] === undefined) throw new InputError(`${old.file} has no sync called ${name}`);
  const { before, after } = await openBoth(old, configuration, name, context.embedded);
  try {
    await using state = await readStateForPlan(configuration);
    await compareSyncs(before, after, {
      files: state.files,
      memory: configuration.memory,
      interruption,
      progress: progressOf(context, name),
      warn: (message) => {
        output.say(`${name}: ${message}`);
      },
      report,
    });
  } finally {
    output.progress();
    await after.target.close();
  }
}
