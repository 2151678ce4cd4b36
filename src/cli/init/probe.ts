import { open } from "node:fs/promises";
import { resolve } from "node:path";
import { parse } from "csv-parse/sync";
import type { BuiltInConnector, Entry, ReadContext, Source } from "#connector.ts";
import { InputError } from "#errors.ts";
import { unreadable } from "#files/disk.ts";
import { checkRules, compileRules } from "#principals/compile.ts";
import type { DraftRules, DraftSource, Seen } from "./draft.ts";
import { withSecrets } from "./draft.ts";

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
const sampled = { shown: 3, searched: 500 };

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
  const seen = { user: new Set<string>(), group: new Set<string>() };
  const samples: Entry[] = [];
  for await (const batch of source.read(context)) {
    for (const record of batch) {
      if (record.kind === "membership") continue;
      const count = (counts[record.kind] += 1);
      if (count <= sampled.shown) samples.push(record);
      if (count > sampled.searched) continue;
      for (const name of Object.keys(record.attributes)) seen[record.kind].add(name);
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

/** One line per record: what the rules make of it. */
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

/** The columns of a CSV file, and the options to read it with. */
export interface Columns {
  readonly names: readonly string[];
  /** Those options that differ from the connector's defaults. */
  readonly dialect: { readonly delimiter?: string | undefined; readonly encoding?: string | undefined };
}

const delimiters = [",", ";", "\t", "|"];

/** @throws {InputError} if the file cannot be read or has no header */
export async function columnsOf(file: string, folder: string): Promise<Columns> {
  const path = resolve(folder, file);
  const start = await startOf(path).catch((error: unknown) => {
    throw unreadable(file, path, error);
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
      delimiter: delimiter === "," ? undefined : delimiter,
      encoding: isUtf16 ? "utf-16" : undefined,
    },
  };
}

/** The first 64 KiB of a file, which hold its header. */
async function startOf(path: string): Promise<Uint8Array> {
  await using file = await open(path);
  const { buffer, bytesRead } = await file.read({ buffer: new Uint8Array(65_536), position: 0 });
  return buffer.subarray(0, bytesRead);
}
