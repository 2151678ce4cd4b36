import { basename } from "node:path";
import { forCaller } from "#times.ts";
import { isDeepStrictEqual } from "node:util";
import type { Configuration } from "#config/configuration.ts";
import { errorDocument, InputError } from "#errors.ts";
import { renderJson } from "#plan/render/json.ts";
import type { Words } from "#plan/render/shared.ts";
import { renderText } from "#plan/render/text.ts";
import { compare as compareSyncs } from "#sync/explain/compare.ts";
import type { Comparison } from "#sync/explain/compare.ts";
import { notesOf, withSubjects } from "#sync/planning/notes.ts";
import type { Sync } from "#sync/sync.ts";
import { chosenSyncs } from "#daemon/context.ts";
import type { Context } from "#daemon/context.ts";
import type { Embedded } from "#daemon/embedded.ts";
import { planState, readableState } from "#daemon/data-folder.ts";
import { describeError, exitCodeOf, exitCodes, worstOf } from "#daemon/output.ts";
import type { ExitCode } from "#daemon/output.ts";
import { progressOf } from "./plan.ts";
import { openParts, openSync } from "#daemon/wiring.ts";

const words: Words = { create: "entering", update: "changing", delete: "leaving" };

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
  const codes: ExitCode[] = [];
  if (output.json) await output.write('{"comparisons":[');
  for (const [place, sync] of chosenSyncs(configuration, name).entries()) {
    const opening = `${place === 0 ? "" : ","}\n{"sync":${JSON.stringify(sync)}`;
    let code: ExitCode = exitCodes.done;
    try {
      await compareOne(context, old, sync, async ({ plan, desired }) => {
        const { notes } = withSubjects(notesOf(desired));
        const { users, groups } = plan.counts;
        const differs = [users, groups].some((kind) => kind.create + kind.update + kind.delete > 0);
        if (differs) code = exitCodes.changes;
        const title = `${sync}: ${basename(old.file)} → ${basename(configuration.file)}`;
        if (output.json) await output.write(`${opening},"notes":${JSON.stringify(notes)},"plan":`);
        const { colour, width } = output;
        const parts = output.json
          ? renderJson(plan)
          : renderText(plan, { ...options, title, colour, width, notes: notes.map(forCaller), words });
        for await (const part of parts) await output.write(part);
        if (output.json) await output.write("}");
      });
    } catch (error) {
      code = exitCodeOf(error);
      if (output.json) await output.write(`${opening},"error":${JSON.stringify(errorDocument(error))}}`);
      else output.say(`${sync}: ${describeError(error)}`);
    }
    codes.push(code);
    if (context.interruption.stop.aborted) break;
  }
  if (output.json) await output.write("\n]}\n");
  return worstOf(codes);
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
    await compareSyncs(before, after, {
      folder: await readableState(configuration, planState),
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

/** Opens a sync as two configurations have it, for the target of the second. Close that after use. */
export async function openBoth(
  old: Configuration,
  configuration: Configuration,
  name: string,
  embedded: Embedded,
): Promise<{ readonly before: Sync; readonly after: Sync }> {
  const after = await openSync(configuration, name, embedded);
  try {
    const { target, place } = after;
    const before = { ...(await openParts(old, name)), target, place };
    const sources = before.sources.map((each) => Object.assign(each, shared(old, configuration, after, each)));
    return { before: { ...before, sources }, after };
  } catch (error) {
    await after.target.close();
    throw error;
  }
}

/** The same source of the new sync, if any: it is read once for both. */
function shared(
  old: Configuration,
  configuration: Configuration,
  after: Sync,
  { name }: Sync["sources"][number],
): Pick<Sync["sources"][number], "source"> | undefined {
  const [one, other] = [old.sources[name], configuration.sources[name]];
  const isSame =
    one?.connector.name === other?.connector.name &&
    isDeepStrictEqual(one?.options, other?.options) &&
    old.folder === configuration.folder;
  const source = isSame ? after.sources.find((each) => each.name === name)?.source : undefined;
  return source === undefined ? undefined : { source };
}
