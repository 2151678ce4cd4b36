import type { Command } from "commander";
import { common, help, allSyncs } from "./flags.ts";
import type { CommonOptions } from "./flags.ts";
import type { Runner } from "./runner.ts";
import { chosenSyncs } from "#daemon/context.ts";
import { errorDocument } from "#errors.ts";
import { csvLine } from "#plan/render/csv.ts";
import { painter } from "#plan/render/text.ts";
import { listUnmanaged } from "#sync/explain/unmanaged.ts";
import type { Fate, Unmanaged, UnmanagedList } from "#sync/explain/unmanaged.ts";
import { formatName, formatNumber, pluralize, visible, wordsOf } from "#text.ts";
import { exactly } from "#times.ts";
import type { Context } from "#daemon/context.ts";
import { writeTable } from "./format.ts";
import { describeError, exitCodes } from "#daemon/output.ts";
import type { ExitCode, Output } from "#daemon/output.ts";
import { eachSync, withSync } from "./syncs.ts";

export function declare(command: Command, runner: Runner): void {
  common(command).argument("[sync]", allSyncs).option("--csv", "list all of them as CSV");
  help(command, {
    examples: ["rollcall unmanaged", "rollcall unmanaged staff --csv > unmanaged.csv"],
    exits: { 0: "none", 2: "there are some" },
  }).action((sync: string | undefined, options: CommonOptions & UnmanagedOptions) =>
    runner.runWithContext(options, (context) => unmanaged(context, sync, options)),
  );
}

export interface UnmanagedOptions {
  readonly csv?: boolean | undefined;
}

/**
 * `rollcall unmanaged [sync]`: who is in the target and in no source, and what becomes of them; changes nothing. With
 * `--csv`: a row for each, for people, all syncs in one table. With `--json`: `{"unmanaged": [{"sync", "target", "count",
 * "leftOut", "principals"} | {"sync", "error"}]}`. Exit code 2 when there is anybody.
 */
export async function unmanaged(
  context: Context,
  name: string | undefined,
  { csv = false }: UnmanagedOptions,
): Promise<ExitCode> {
  const { configuration, output } = context;
  const isCsv = csv && !output.json;
  let written = 0;
  /** All syncs have the columns of the first. */
  let columns: readonly string[] | undefined;
  if (output.json) await output.write('{"unmanaged":[');
  const failed = async (sync: string, error: unknown): Promise<void> => {
    if (!output.json) return output.say(`${sync}: ${describeError(error)}`);
    await output.write(`${written++ > 0 ? "," : ""}${JSON.stringify({ sync, error: errorDocument(error) })}`);
  };
  const code = await eachSync(context, chosenSyncs(configuration, name), failed, (sync) =>
    listOne(context, sync, async (list) => {
      if (output.json) await writeJson(output, list, written++ > 0);
      else if (isCsv) {
        if (columns === undefined) await output.write(`\uFEFF${csvLine(columnsOf(list))}`, "data");
        columns ??= columnsOf(list);
        await writeCsv(output, list, columns);
      } else await writeText(output, list);
      return list.count > 0 ? exitCodes.changes : exitCodes.done;
    }),
  );
  if (output.json) await output.write("]}\n");
  return code;
}

function listOne(context: Context, name: string, work: (list: UnmanagedList) => Promise<ExitCode>): Promise<ExitCode> {
  return withSync(context, name, (sync, { state, ...looking }) =>
    listUnmanaged(sync, { ...looking, files: state.files }, (list) => {
      context.output.progress();
      return work(list);
    }),
  );
}

/** Somebody with what people know them by beside the rest. */
function flat({ type, name, known, ...rest }: Unmanaged): Readonly<Record<string, unknown>> {
  return { type, name, ...known, ...rest };
}

async function writeJson(
  output: Output,
  { rows, sync, target, count, leftOut }: UnmanagedList,
  isNext: boolean,
): Promise<void> {
  await output.write(
    `${isNext ? "," : ""}${JSON.stringify({ sync, target, count, leftOut }).slice(0, -1)},"principals":[`,
  );
  let isFirst = true;
  for await (const batch of rows()) {
    await output.write((isFirst ? "" : ",") + batch.map((each) => JSON.stringify(flat(each))).join(","));
    isFirst = false;
  }
  await output.write("]}");
}

function columnsOf({ knownBy }: UnmanagedList): string[] {
  return ["sync", "type", "name", ...knownBy, "groups", "fate", "leavesAt"];
}

async function writeCsv(output: Output, { sync, rows }: UnmanagedList, columns: readonly string[]): Promise<void> {
  for await (const batch of rows()) {
    const lines = batch.map(({ groups, fate, leavesAt, type, name, known }) => {
      const cells: Readonly<Record<string, string | null>> = {
        ...known,
        sync,
        type,
        name,
        groups: groups.join(";"),
        fate,
        leavesAt,
      };
      return csvLine(columns.map((column) => cells[column] ?? undefined));
    });
    await output.write(lines.join(""), "data");
  }
}

/** How many are shown as text. */
const most = 1000;

const words: Record<Fate, string> = {
  "not owned": "left alone",
  foreign: "left alone: no sync manages this type",
  gone: "the next run deletes it",
  leaving: "leaving",
  administrator: "never deleted: an administrator",
  "last member": "never deleted: a protected group would have no member left",
  "foreign member": "never deleted: a principal of another type is in it",
};

const kinds: Readonly<Record<string, string>> = { LOCAL_USER: "user", LOCAL_GROUP: "group" };

async function writeText(output: Output, list: UnmanagedList): Promise<void> {
  const { sync, target, knownBy, count, leftOut, rows } = list;
  const title = painter(output.colour)("bold", visible(`${sync} → ${target}`));
  const shown: Unmanaged[] = [];
  for await (const batch of rows()) {
    shown.push(...batch.slice(0, most - shown.length));
    if (shown.length === most) break;
  }
  const who =
    count === 0
      ? "everybody in the target is in a source"
      : `${pluralize(count, "principal")} in the target and in no source`;
  await output.write(`${title}: ${who}\n`);
  const names = ["type", "name", ...knownBy.map(wordsOf), "groups", "what a run does"];
  const cells = shown.map(({ type, name, known, groups, fate, leavesAt }) => [
    kinds[type] ?? type,
    name,
    ...knownBy.map((each) => known[each] ?? ""),
    groups.map(formatName).join(", "),
    leavesAt === null ? words[fate] : `deleted on ${exactly(leavesAt)}`,
  ]);
  // The first that they are known by, the groups and the others go where there is no room.
  const [first, ...others] = knownBy.map((_, index) => index + 2);
  const groups = knownBy.length + 2;
  const expendable = [...(first === undefined ? [] : [first]), groups, ...others];
  if (shown.length > 0) await writeTable(output, names, cells, { flexible: [...names.keys()].slice(1), expendable });
  if (count > shown.length) await output.write(`… and ${formatNumber(count - shown.length)} more: --csv lists all\n`);
  const rest = [
    [leftOut.protected, "whose name is protected"],
    [leftOut.others, "of other syncs"],
    [leftOut.inDoubt, "that a source may have: a record is in doubt, or a source could not be read"],
  ] as const;
  for (const [number, what] of rest)
    if (number > 0) await output.write(`left out: ${pluralize(number, "principal")} ${what}\n`);
}
