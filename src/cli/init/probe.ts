import { textsOf } from "#plan/change.ts";
import type { BuiltInConnector, Entry, ReadContext, Source } from "#connector.ts";
import { InputError } from "#errors.ts";
import { formatName } from "#text.ts";
import { checkRules, compileRules } from "#principals/compile.ts";
import type { DraftRules, DraftSource, Seen } from "./draft.ts";
import { withSecrets } from "./draft.ts";
import { Examples } from "./examples.ts";
import { renderTable } from "#cli/format.ts";

/** What reading a new source showed. */
export interface Found {
  readonly reached: readonly string[];
  readonly users: number;
  readonly groups: number;
  readonly seen: Seen;
  /** The first records of each kind. */
  readonly samples: readonly Entry[];
}

/** How many records of each kind are shown, and how many are searched for attributes. */
const sampled = { shown: 5, searched: 500 };

/**
 * Opens a source whose options were not validated yet.
 * @throws {InputError} naming each invalid option
 */
export async function openDraft(
  connectors: readonly BuiltInConnector[],
  { connector: name, options, secrets }: DraftSource,
  folder: string,
): Promise<Source> {
  const connector = await connectors.find((each) => each.name === name)?.load();
  if (connector === undefined) throw new InputError(`there is no connector ${name}`);
  const parsed = await connector.options.safeParseAsync(withSecrets(options, secrets));
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
    throw new InputError(problems.join("; "));
  }
  return connector.open(parsed.data, { name: "company", folder });
}

/**
 * Reads the whole source once.
 * @param progress called with the number of records so far
 * @throws what the source throws
 */
export async function probe(source: Source, context: ReadContext, progress: (records: number) => void): Promise<Found> {
  const reached = (await source.describe?.(context)) ?? [];
  const counts = { user: 0, group: 0 };
  const seen = { user: new Examples(), group: new Examples() };
  const ids = new Map<string, string>();
  const samples: Entry[] = [];
  for await (const batch of source.read(context)) {
    for (const record of batch) {
      if (record.kind === "membership") continue;
      const count = (counts[record.kind] += 1);
      if (count <= sampled.shown) samples.push(record);
      if (count > sampled.searched) continue;
      const first = ids.get(`${record.kind} ${record.id}`);
      if (first !== undefined)
        throw new InputError(
          `id: ${formatName(record.id)} does not identify one ${record.kind}: ${first} and ${record.origin} have it`,
        );
      ids.set(`${record.kind} ${record.id}`, record.origin);
      for (const [name, value] of Object.entries(record.attributes))
        seen[record.kind].add(name, Array.isArray(value) ? value[0] : value);
    }
    progress(counts.user + counts.group);
  }
  return { reached, users: counts.user, groups: counts.group, seen: { users: seen.user, groups: seen.group }, samples };
}

/** The problems of the rules; empty if there are none. */
export function problemsOf(rules: DraftRules): readonly string[] {
  return checkRules({ groups: {}, join: {}, ...rules } as Parameters<typeof checkRules>[0]).map(
    ({ path, message }) => `${path.join(".")}: ${message}`,
  );
}

/** What the rules make of the first records, as the lines of a table. */
export function outcomesOf(rules: DraftRules, samples: readonly Entry[]): readonly string[] {
  const compiled = compileRules({ staticGroups: [], defaultGroups: [], ...rules });
  // What people are known by comes first.
  const attributes = compiled.declared.all
    .toSorted((a, b) => Number(b.identifies === true) - Number(a.identifies === true))
    .map(({ name }) => name);
  const columns = ["", "name", ...attributes, "groups", "from"];
  const rows = samples.flatMap((entry) => {
    if (entry.kind === "group" && rules.groups === undefined) return [];
    const judged = compiled.judge(entry);
    if (judged.verdict !== "included") {
      const reason = judged.verdict === "quarantined" ? `quarantined: ${judged.reason}` : "excluded";
      return [[entry.kind, "", reason, ...attributes.map(() => ""), entry.origin]];
    }
    const values = attributes.map((attribute) => textsOf({ attribute, to: judged.attributes[attribute] }).to ?? "");
    const groups = [...entry.memberOf, ...judged.groups].join(", ");
    return [[entry.kind, judged.name, ...values, groups, entry.origin]];
  });
  // A column that is always empty says nothing.
  const used = columns.map((_, index) => rows.some((row) => row[index] !== ""));
  const only = <Cell>(cells: readonly Cell[]): Cell[] => cells.filter((_, index) => used[index]);
  const shown = rows.map((row) => only(row.map((cell) => shortened(cell))));
  return [...renderTable(only(columns), shown)].join("").trimEnd().split("\n");
}

/** How much of a value is shown, in characters. */
const longest = 40;

function shortened(text: string): string {
  const characters = Array.from(text);
  return characters.length <= longest ? text : `${characters.slice(0, longest - 1).join("")}…`;
}
