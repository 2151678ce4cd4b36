import type { OpenContext, ReadContext, SourceRecord } from "#connector.ts";
import { IncompleteReadError, InputError } from "#errors.ts";
import type { OpenFile } from "#files/source-file.ts";
import type { Checks } from "#files/settle.ts";
import { contentOf, OpenFiles } from "#files/source-file.ts";
import type { Kind } from "#principals/principal.ts";
import { itemsOf, JsonError } from "#http/directory/json.ts";
import { envelopeOf } from "./list.ts";
import type { Envelope } from "./list.ts";
import type { Options } from "./options.ts";
import type { EntryOptions } from "./resource.ts";
import type { Resource } from "./schema.ts";
import { entryOf, idOf, objectOf, typeOf } from "./resource.ts";
import { entryOptionsOf } from "./server.ts";

export type FileOptions = Options & { readonly files: NonNullable<Options["files"]> };

/** The kind of resources in a file; undefined: each resource says. */
type Content = Kind | undefined;

/** The files, by what is in them. */
export function partsOf(
  files: FileOptions["files"],
): readonly { readonly content: Content; readonly names: readonly string[]; readonly checks: Checks }[] {
  const { users, groups, mixed } = files;
  return (
    [
      ["user", users],
      ["group", groups],
      [undefined, mixed],
    ] as const
  ).flatMap(([content, names]) => (names === undefined ? [] : [{ content, names: [names].flat(), checks: files }]));
}

/**
 * Every resource of every file. All files are opened at the start and must be unchanged at the end.
 * @throws {IncompleteReadError} a file is missing, cut off or changing, or holds fewer resources than its total
 * @throws {InputError} a file is malformed; the message names file and line
 */
export async function* readFiles(
  options: FileOptions,
  open: OpenContext,
  context: ReadContext,
): AsyncGenerator<readonly SourceRecord[]> {
  const { signal } = context;
  await using sets = new AsyncDisposableStack();
  const opened: { content: Content; set: OpenFiles }[] = [];
  const entryOptions = entryOptionsOf(options, context);
  const others = new Map<string, number>();
  signal.throwIfAborted();
  for (const { content, names, checks } of partsOf(options.files))
    opened.push({ content, set: sets.use(await OpenFiles.open(names, open, checks, signal)) });
  for (const { content, set } of opened) {
    for (const file of set.files) {
      try {
        yield* recordsOf(file, content, entryOptions, { signal, others });
      } catch (error) {
        signal.throwIfAborted();
        // A file that changed may look malformed; then report the change.
        await file.assertUnchanged();
        throw error;
      }
    }
  }
  for (const { set } of opened) await set.assertUnchanged();
  signal.throwIfAborted();
  for (const [type, count] of others)
    context.warn(`${count} resources of the type ${type} are neither users nor groups`);
}

async function* recordsOf(
  file: OpenFile,
  content: Content,
  entryOptions: EntryOptions,
  { signal, others }: { signal: AbortSignal; others: Map<string, number> },
): AsyncGenerator<readonly SourceRecord[]> {
  const totals = createTotals(file.name);
  const at = (line: number): string => `${file.name}:${line}`;
  let line = 1;
  try {
    for await (const items of itemsOf(contentOf(file, () => at(line), signal))) {
      const records: SourceRecord[] = [];
      for (const item of items) {
        ({ line } = item);
        if (item.kind === "list") {
          totals.list(envelopeOf(objectOf(item.envelope) ?? {}, at(line)), line);
          continue;
        }
        totals.resource();
        const resource = objectOf(item.value);
        if (resource === undefined) throw new InputError(`${at(line)}: expected a resource, an object with an id`);
        const kind = kindOf(resource, content, at(line), others);
        if (kind === undefined) continue;
        const id = idOf(resource);
        records.push(entryOf(kind, resource, id === undefined ? at(line) : `${at(line)}, id ${id}`, entryOptions));
      }
      yield records;
    }
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    const message = `${at(error.line)}: ${error.message}`;
    if (error.reason === "truncated") {
      throw new IncompleteReadError(
        error.message === "is empty" ? `${file.name} is empty` : `${message}; write the file again`,
      );
    }
    throw new InputError(`${message}; expected a ListResponse, an array of resources, or one resource a line`);
  }
  totals.end();
}

function kindOf(resource: Resource, content: Content, place: string, others: Map<string, number>): Kind | undefined {
  const type = typeOf(resource) ?? content;
  if (type === undefined) {
    const message = "says neither in meta.resourceType nor in schemas whether it is a user or a group";
    throw new InputError(`${place}: ${message}; put users and groups in files of their own (files: { users, groups })`);
  }
  if (content !== undefined && type !== content) {
    const found = typeof type === "string" ? type : type.other;
    throw new InputError(`${place}: is a ${found}, in a file of ${content}s; name files of both as files: { mixed }`);
  }
  if (typeof type === "string") return type;
  others.set(type.other, (others.get(type.other) ?? 0) + 1);
  return undefined;
}

/** Compares the lists in a file with their totals. A page that starts at 1 begins a new list, any other continues it. */
function createTotals(file: string) {
  let open: { readonly total: number; readonly line: number; received: number } | undefined;
  let received = 0;
  const end = (): void => {
    if (open === undefined || open.received === open.total) return;
    const message = `totalResults is ${open.total}, and there are ${open.received}`;
    throw new IncompleteReadError(`${file}:${open.line}: ${message}; write the whole list, all its pages`);
  };
  return {
    resource: (): void => {
      received++;
    },
    list: ({ totalResults, startIndex }: Envelope, line: number): void => {
      if (open === undefined || (startIndex ?? 1) === 1) {
        end();
        open = undefined;
      } else if (startIndex !== open.received + 1 || totalResults !== open.total) {
        const expected = `a page that starts at ${open.received + 1} of ${open.total}`;
        throw new IncompleteReadError(`${file}:${line}: expected ${expected}; write the whole list, all its pages`);
      }
      if (totalResults !== undefined) {
        open ??= { total: totalResults, line, received: 0 };
        // The first page may start later than 1; then the total does not match.
        open.received += received;
      }
      received = 0;
    },
    end,
  };
}
