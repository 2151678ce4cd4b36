import type { ReadContext, SourceRecord } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import { type OpenFile, openFile } from "./file.ts";
import { type Header, headerOf } from "./header.ts";
import { type Dialect, dialectOf, type Options, type PartialDialect } from "./options.ts";
import { at, type Place } from "./place.ts";
import { entryOf, membershipOf } from "./records.ts";
import { type Row, rowsOf } from "./rows.ts";
import { textOf } from "./text.ts";

/** A batch ends at so many records, or references: groups may have thousands of members each. */
const longestBatch = { records: 1_000, references: 10_000 };

/** What is to be read of one file. */
interface Part {
  readonly name: string;
  readonly dialect: Dialect;
  readonly minRows: number;
  /** Makes a record of each row under a header. */
  records(header: Header): (row: Row) => SourceRecord;
}

/**
 * Every record of every file: users, then groups, then memberships. All files are open from the start and must be the
 * same at the end, so that what was read is what the folder held at one time.
 * @throws {IncompleteReadError} when a file is missing, empty, too short, cut off or changing
 * @throws {InputError} when a file is malformed; the message names file and line
 * @throws {UnavailableError} when the system cannot read a file
 */
export async function* read(
  options: Options,
  folder: string,
  { signal }: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  const opened: { part: Part; file: OpenFile }[] = [];
  try {
    signal.throwIfAborted();
    for (const part of partsOf(options)) opened.push({ part, file: await openFile(part.name, folder) });
    for (const { part, file } of opened) yield* readPart(part, file, signal);
    for (const { file } of opened) await file.assertUnchanged();
    signal.throwIfAborted();
  } finally {
    await Promise.all(opened.map(({ file }) => file.close()));
  }
}

function partsOf(options: Options): readonly Part[] {
  const { users, groups, memberships } = options;
  const common = (part: { file: string; minRows: number } & PartialDialect) => ({
    name: part.file,
    dialect: dialectOf(options, part),
    minRows: part.minRows,
  });
  const parts: Part[] = [{ ...common(users), records: (header) => entryOf("user", users, header, users.file) }];
  if (groups) parts.push({ ...common(groups), records: (header) => entryOf("group", groups, header, groups.file) });
  if (memberships) {
    parts.push({ ...common(memberships), records: (header) => membershipOf(memberships, header, memberships.file) });
  }
  return parts;
}

async function* readPart(part: Part, file: OpenFile, signal: AbortSignal): AsyncGenerator<readonly SourceRecord[]> {
  try {
    yield* recordsOf(part, file, signal);
  } catch (error) {
    signal.throwIfAborted();
    // A file that changed may look malformed; that it changed is then what to say.
    await file.assertUnchanged();
    throw error;
  }
}

async function* recordsOf(part: Part, file: OpenFile, signal: AbortSignal): AsyncGenerator<readonly SourceRecord[]> {
  const place: Place = { file: part.name, line: 1 };
  const text = textOf(file, part.dialect.encoding, place, signal);
  let layout: { width: number; record: (row: Row) => SourceRecord } | undefined;
  let batch: SourceRecord[] = [];
  let references = 0;
  let count = 0;
  for await (const rows of rowsOf(text, part.dialect, place)) {
    for (const row of rows) {
      if (layout === undefined) {
        const header = headerOf(row, part.name);
        layout = { width: header.width, record: part.records(header) };
        continue;
      }
      if (row.fields.length !== layout.width) {
        const origin = at({ file: part.name, line: row.line });
        throw new InputError(
          `${origin}: has ${row.fields.length} fields, the header has ${layout.width}; a field that holds a delimiter is quoted`,
        );
      }
      const record = layout.record(row);
      batch.push(record);
      count++;
      references += referencesOf(record);
      if (batch.length >= longestBatch.records || references >= longestBatch.references) {
        yield batch;
        batch = [];
        references = 0;
      }
    }
  }
  if (batch.length > 0) yield batch;
  if (layout === undefined) throw new IncompleteReadError(`${part.name} is empty: it has no header line`);
  if (count < part.minRows) {
    throw new IncompleteReadError(
      `${part.name} has too few rows: ${count} after the header, expected at least ${part.minRows} (minRows)`,
    );
  }
}

function referencesOf(record: SourceRecord): number {
  return record.kind === "membership" ? 1 : record.memberOf.length + record.members.length;
}
