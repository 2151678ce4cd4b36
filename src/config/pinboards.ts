import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { InputError } from "#errors.ts";
import { readSmallFile } from "#files/disk.ts";
import { ConfigurationDocument } from "./document.ts";
import { renderProblems } from "./problems.ts";
import type { Path, Problem } from "./problems.ts";
import { reason } from "./substitution.ts";
import { validate } from "./validate.ts";
import { text } from "#values.ts";

const guid = text("a GUID like 6f1c2a52-0d8e-4a57-9f0b-6d2d2b8a7c11").regex(
  /^[\dA-Fa-f]{8}-(?:[\dA-Fa-f]{4}-){3}[\dA-Fa-f]{12}$/,
  { error: "expected a GUID like 6f1c2a52-0d8e-4a57-9f0b-6d2d2b8a7c11" },
);
const column = text("the name of a column");

const visualization = z.strictObject({
  id: guid,
  name: text("a name"),
  title: text("a title"),
  type: z
    .enum(["TABLE", "CHART", "HEADLINE"])
    .describe("TABLE: the rows. CHART: see chart. HEADLINE: each value of the first row is a figure."),
  database: text("the name of a database").describe("The query sees its tables, and nothing else."),
  sql: text("a SELECT statement").describe("One SELECT, in DuckDB's SQL."),
  chart: z
    .strictObject({
      mark: z
        .enum(["bar", "line", "area", "dot"])
        .exactOptional()
        .describe("Default: line over dates and times, otherwise bar."),
      x: column
        .exactOptional()
        .describe("The column of the categories or the scale. Default: the first that is not y."),
      y: column
        .exactOptional()
        .describe("The column of numbers. Default: the first one; the first column of all comes last."),
      series: column.exactOptional().describe("A column; each of its values gets a colour."),
    })
    .exactOptional()
    .describe("How to draw a chart. Missing keys are guessed from the columns."),
});

/** The file of a pinboard. */
export const pinboard = z.strictObject({
  id: guid,
  name: text("a name"),
  description: z.string().exactOptional(),
  author: guid.exactOptional(),
  visualizations: z.array(visualization, { error: "expected a list of visualizations" }),
});

/** A pinboard as in its file, with the file's times in epoch milliseconds. */
export type PinboardConfiguration = z.infer<typeof pinboard> & { readonly created: number; readonly modified: number };

/** One file of the folder: its pinboard, or its problems. */
interface PinboardFile {
  readonly path: string;
  readonly pinboard?: PinboardConfiguration | undefined;
  readonly document?: ConfigurationDocument;
  readonly problems: readonly Problem[];
}

/**
 * Reads the pinboards of a folder: its files `*.yaml` and `*.yml` that are not hidden. Does not check their SQL, since tables
 * may be created later, and does not substitute, since SQL may contain `${`.
 * @throws {InputError} with every problem of every file, each as `FILE:LINE:COLUMN: KEY: what is wrong; what to do`
 */
export async function loadPinboards(folder: string): Promise<PinboardConfiguration[]> {
  const names = await readdir(folder).catch((cause: unknown) => {
    throw new InputError(
      `the folder of pinboards ${folder} cannot be read: ${reason(cause).replace("file", "folder")}`,
      {
        cause,
      },
    );
  });
  const files = await Promise.all(
    names
      .filter((name) => /^[^.].*\.ya?ml$/i.test(name))
      .sort()
      .map((name) => readPinboard(join(folder, name))),
  );
  const repeated = repeatedIds(files);
  const problems = files.flatMap((file) =>
    renderProblems(file.path, [...file.problems, ...(repeated.get(file) ?? [])]),
  );
  if (problems.length > 0) {
    const count = problems.length === 1 ? "a problem" : `${problems.length} problems`;
    throw new InputError(`the pinboards in ${folder} have ${count}`, { problems });
  }
  return files.flatMap((file) => file.pinboard ?? []);
}

/** The longest file of a pinboard, in bytes. */
const longest = 1024 ** 2;

async function readPinboard(path: string): Promise<PinboardFile> {
  const whole = (message: string): PinboardFile => ({
    path,
    problems: [{ line: 1, column: 1, path: [], message }],
  });
  let source: string;
  let times: { birthtimeMs: number; mtimeMs: number };
  try {
    source = new TextDecoder("utf-8", { fatal: true }).decode(readSmallFile(path, longest));
    times = await stat(path);
  } catch (error) {
    return whole(`cannot be read: ${reason(error)}`);
  }
  const document = new ConfigurationDocument(source, undefined);
  if (!document.readable) return { path, document, problems: document.problems };
  if (document.value === null) return whole("the file is empty; a pinboard has id, name and visualizations");
  const { value, problems } = await validate(pinboard, document.value, [], document);
  return {
    path,
    document,
    problems: [...document.problems, ...problems],
    pinboard: value && { ...value, ...timesOf(times) },
  };
}

/** Some file systems do not know the creation time, and a copied file may be younger than its content. */
function timesOf({ birthtimeMs, mtimeMs }: { birthtimeMs: number; mtimeMs: number }) {
  const modified = Math.floor(mtimeMs);
  return { created: birthtimeMs > 0 ? Math.min(Math.floor(birthtimeMs), modified) : modified, modified };
}

/** Ids that occurred before, in the same file or an earlier one, whatever other problems the files have. */
function repeatedIds(files: readonly PinboardFile[]): Map<PinboardFile, Problem[]> {
  const first = new Map<string, string>();
  const repeated = new Map<PinboardFile, Problem[]>();
  for (const file of files) {
    const { document, path } = file;
    if (document === undefined) continue;
    for (const place of placesOfIds(document)) {
      const id = document.at(place);
      if (!guid.safeParse(id).success) continue;
      const key = String(id).toLowerCase();
      const where = document.problem(place, "value", "");
      const before = first.get(key);
      if (before === undefined) {
        first.set(key, `${path}:${where.line}`);
        continue;
      }
      const message = `the same id as in ${before}; give everything an id of its own`;
      repeated.set(file, [...(repeated.get(file) ?? []), { ...where, message }]);
    }
  }
  return repeated;
}

function placesOfIds(document: ConfigurationDocument): Path[] {
  const visualizations = document.at(["visualizations"]);
  const count = Array.isArray(visualizations) ? visualizations.length : 0;
  return [["id"], ...Array.from({ length: count }, (_, index) => ["visualizations", index, "id"])];
}
