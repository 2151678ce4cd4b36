import { pipeline, Readable } from "node:stream";
import { CsvError, parse } from "csv-parse";
import { IncompleteReadError, InputError } from "#errors.ts";
import { arriving } from "#http/directory/api.ts";
import type { DirectoryApi } from "#http/directory/api.ts";
import { itemsOf } from "#http/directory/json.ts";
import type { Answer } from "#http/client.ts";
import { spoilt } from "#text.ts";
import { isObject } from "#values.ts";
import type { ListOptions } from "./options.ts";
import { namesOf, valueAt } from "./path.ts";
import type { Path } from "./path.ts";

/** One item of a list, which is an object. */
export type Item = Readonly<Record<string, unknown>>;

/** Items of an answer, and the last of its parts also says what is around them. */
export interface Part {
  readonly items: readonly Item[];
  readonly around?: unknown;
}

/** How answers hold a list. */
export interface Content extends Pick<ListOptions, "delimiter" | "format" | "items"> {
  /** Where every record has a value. A CSV without such a column is no list, even one without rows. */
  readonly ids: readonly Path[];
  /** Where a record has further keys, or refers to others. Absent: nowhere. */
  readonly references?: readonly Path[] | undefined;
}

/** In bytes: one row, or what stands between two quotes that do not belong together. */
const longestRow = 16 * 1024 * 1024;
/** Rows in one part. */
const rowsAtATime = 1_000;

/**
 * The parts of an answer, as they arrive.
 * @throws {JsonError} it is not JSON, or ends early; {InputError} there is no such list, or it has something else
 */
function partsIn(body: AsyncIterable<Buffer>, content: Content, title: string): AsyncGenerator<Part> {
  return content.format === "csv" ? rowsIn(body, content, title) : objectsIn(body, content, title);
}

async function* objectsIn(body: AsyncIterable<Buffer>, { items: path }: Content, title: string): AsyncGenerator<Part> {
  const names = path === undefined ? [] : (namesOf(path) ?? []);
  let isClosed = path === undefined;
  for await (const found of itemsOf(body, path === undefined ? [] : [names])) {
    const items: Item[] = [];
    for (const item of found) {
      if (item.kind === "list") {
        if (path !== undefined && !Array.isArray(valueAt(item.envelope, path)))
          throw new InputError(`${title}: ${path.text} is not a list (items)`);
        isClosed = true;
        yield { items: items.splice(0), around: item.envelope };
        continue;
      }
      if (path !== undefined && !item.isListed) throw noList(title, path.text, item.value);
      if (!isObject(item.value))
        throw new InputError(`${title}: the list has something that is no object, at line ${item.line}`);
      items.push(item.value);
    }
    if (items.length > 0) yield { items };
  }
  if (!isClosed) throw noList(title, path?.text ?? "", undefined);
}

function noList(title: string, path: string, instead: unknown): InputError {
  const names = typeof instead === "object" && instead !== null ? Object.keys(instead).slice(0, 10) : [];
  const there = names.length === 0 ? "" : `; there is ${names.join(", ")}`;
  return new InputError(`${title}: the answer has no list at ${path} (items)${there}`);
}

async function* rowsIn(
  body: AsyncIterable<Buffer>,
  { delimiter, ids, references = [] }: Content,
  title: string,
): AsyncGenerator<Part> {
  const options = {
    bom: true,
    columns: columnsOf(title, ids),
    delimiter,
    max_record_size: longestRow,
    skip_empty_lines: true,
  };
  // The pipeline passes the answer's errors on to the reader.
  const rows = pipeline(Readable.from(textIn(body, title)), parse(options), () => {});
  const unspoilt = [...ids, ...references];
  let items: Item[] = [];
  try {
    for await (const row of rows as AsyncIterable<Item>) {
      for (const path of unspoilt) {
        const reason = spoilt(String(valueAt(row, path)));
        if (reason !== undefined) throw new InputError(`${title}: a value of ${path.text} is ${reason}`);
      }
      items.push(row);
      if (items.length < rowsAtATime) continue;
      yield { items };
      items = [];
    }
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    const line = typeof error["lines"] === "number" ? ` at line ${error["lines"]}` : "";
    // Its message may quote a value.
    throw new InputError(`${title}: the answer is not CSV${line} (${error.code})`);
  }
  yield { items };
}

async function* textIn(body: AsyncIterable<Buffer>, title: string): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const decoded = (piece?: Buffer): string => {
    let text: string;
    try {
      text = decoder.decode(piece, { stream: piece !== undefined });
    } catch {
      throw new InputError(`${title}: the answer is not UTF-8; have the service export UTF-8`);
    }
    if (text.includes("\0"))
      throw new IncompleteReadError(
        `${title}: the answer has zero bytes: the service sends a file that is not fully written, or UTF-16`,
        { transient: true },
      );
    return text;
  };
  for await (const piece of body) yield decoded(piece);
  yield decoded();
}

/** @throws {InputError} two columns have one name, or one is missing: what came is an error, or a page for people */
function columnsOf(title: string, ids: readonly Path[]): (header: readonly string[]) => string[] {
  return (header) => {
    const names = header.map((name) => name.trim());
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (twice !== undefined) throw new InputError(`${title}: two columns are called ${JSON.stringify(twice)}`);
    for (const { steps, text } of ids) {
      const [first] = steps;
      if (first !== undefined && "name" in first && !names.includes(first.name))
        throw new InputError(
          `${title}: the answer is no CSV with a column ${text}; look at it: it may be an error or a sign-in page, or have another delimiter`,
        );
    }
    return names;
  };
}

/** A whole answer. */
export async function pageIn(answer: Pick<Answer, "body">, content: Content, title: string): Promise<Part> {
  const items: Item[] = [];
  let around: unknown;
  for await (const part of partsIn(answer.body, content, title)) {
    for (const item of part.items) items.push(item);
    around ??= part.around;
  }
  return { items, around };
}

/**
 * The parts of an answer that is not divided into pages and may be larger than memory. It may be asked for again until its
 * first part has come.
 * @throws {UnavailableError} it broke off after that
 */
export async function* answerIn(
  api: DirectoryApi,
  url: URL,
  list: Content & Pick<ListOptions, "body">,
): AsyncGenerator<Part> {
  const title = api.titleOf(url);
  const { first, rest, close } = await api.get({
    url,
    body: list.body,
    keepsOpen: true,
    use: async ({ body, close }) => {
      const rest = partsIn(body, list, title);
      const first = await rest.next();
      return { first: first.done === true ? undefined : first.value, rest, close };
    },
  });
  yield* arriving(api, { title, first, rest, close });
}
