import { open } from "node:fs/promises";
import { resolve } from "node:path";
import { parse } from "csv-parse/sync";
import type { BuiltInConnector, Entry, ReadContext, Source } from "#connector.ts";
import { InputError, messageOf } from "#errors.ts";
import { checkRules, compileRules } from "#principals/compile.ts";
import type { DraftRules, DraftSource, Seen } from "./draft.ts";
import { withSecrets } from "./draft.ts";

/** What a source that is being set up delivers. */
export interface Found {
  readonly reached: readonly string[];
  readonly users: number;
  readonly groups: number;
  readonly seen: Seen;
  /** The first records of each kind. */
  readonly samples: readonly Entry[];
}

/** So many records of each kind are shown, and looked at for their attributes. */
const sampled = { shown: 3, looked: 500 };

/**
 * Opens a source whose options may be wrong.
 * @throws {InputError} naming each option that is
 */
export async function openDraft(
  connectors: readonly BuiltInConnector[],
  { connector: name, options, secrets }: DraftSource,
  folder: string,
): Promise<Source> {
  const connector = await connectors.find((each) => each.name === name)?.load();
  if (connector === undefined) throw new InputError(`no connector is called ${name}`);
  const parsed = await connector.options.safeParseAsync(withSecrets(options, secrets));
  if (!parsed.success) {
    const problems = parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
    throw new InputError(problems.join("; "));
  }
  return connector.open(parsed.data, { name: "company", folder });
}

/**
 * Reads everything once.
 * @param progress is told how many records there are so far
 * @throws what the source throws
 */
export async function probe(source: Source, context: ReadContext, progress: (records: number) => void): Promise<Found> {
  const reached = (await source.describe?.(context)) ?? [];
  const counts = { user: 0, group: 0 };
  const seen = { user: new Set<string>(), group: new Set<string>() };
  const samples: Entry[] = [];
  for await (const batch of source.read(context)) {
    for (const record of batch) {
      if (record.kind === "membership") continue;
      const count = (counts[record.kind] += 1);
      if (count <= sampled.shown) samples.push(record);
      if (count > sampled.looked) continue;
      for (const name of Object.keys(record.attributes)) seen[record.kind].add(name);
    }
    progress(counts.user + counts.group);
  }
  return { reached, users: counts.user, groups: counts.group, seen: { users: seen.user, groups: seen.group }, samples };
}

/** What is wrong with the rules; empty when nothing is. */
export function problemsOf(rules: DraftRules): readonly string[] {
  return checkRules({ groups: {}, join: {}, ...rules } as Parameters<typeof checkRules>[0]).map(
    ({ path, message }) => `${path.join(".")}: ${message}`,
  );
}

/** What the rules make of the records, a line each. */
export function outcomesOf(rules: DraftRules, samples: readonly Entry[]): readonly string[] {
  const compiled = compileRules({ staticGroups: [], defaultGroups: [], ...rules });
  return samples.flatMap((entry) => {
    if (entry.kind === "group" && rules.groups === undefined) return [];
    const { verdict, ...rest } = compiled.judge(entry);
    return [
      `${entry.kind} ${entry.origin}: ${verdict === "included" ? JSON.stringify(rest) : `${verdict}: ${JSON.stringify(rest)}`}`,
    ];
  });
}

/** The columns of a CSV file, and how it has to be read. */
export interface Columns {
  readonly names: readonly string[];
  /** What differs from the connector's defaults. */
  readonly dialect: { readonly delimiter?: string; readonly encoding?: string };
}

const delimiters = [",", ";", "\t", "|"];

/** @throws {InputError} when the file cannot be read or has no header */
export async function columnsOf(file: string, folder: string): Promise<Columns> {
  const start = await startOf(resolve(folder, file)).catch((error: unknown) => {
    throw new InputError(`${file} cannot be read: ${messageOf(error)}`, { cause: error });
  });
  const isUtf16 = (start[0] === 0xff && start[1] === 0xfe) || (start[0] === 0xfe && start[1] === 0xff);
  const encoding = isUtf16 ? (start[0] === 0xff ? "utf-16le" : "utf-16be") : "utf-8";
  const text = new TextDecoder(encoding).decode(start);
  const [first = ""] = text.split(/\r?\n|\r/, 1);
  const delimiter = delimiters.toSorted((one, other) => first.split(other).length - first.split(one).length)[0] ?? ",";
  const [header = []] = parse(first, { delimiter, relax_quotes: true, to_line: 1 });
  const names = header.map((name) => name.trim()).filter((name) => name !== "");
  if (names.length === 0) throw new InputError(`${file} is empty: it has no header line`);
  return {
    names,
    dialect: {
      ...(delimiter === "," ? {} : { delimiter }),
      ...(isUtf16 ? { encoding: "utf-16" } : {}),
    },
  };
}

/** As much of a file as its header may have. */
async function startOf(path: string): Promise<Uint8Array> {
  await using file = await open(path);
  const { buffer, bytesRead } = await file.read({ buffer: new Uint8Array(65_536), position: 0 });
  return buffer.subarray(0, bytesRead);
}
