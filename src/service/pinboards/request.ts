import type { z } from "zod";
import { InputError } from "#errors.ts";
import { headerParameters, pinboardParameters } from "#wire/pinboards.ts";

/** The parameters of `pinboarddata`. GUIDs are in lower case. */
export interface DataRequest {
  readonly pinboard: string;
  /** Ids of visualizations; empty: all. */
  readonly visualizations: readonly string[];
  readonly format: Format;
  readonly paging: Paging;
}

/** Absent: not asked for. */
export interface Paging {
  readonly offset?: number;
  readonly size?: number;
}

/** Parameters by their names in lower case. */
type Given = Readonly<Record<string, string>>;

/**
 * Reads the parameters of `pinboarddata` (B.11 to B.13).
 * @param visualizations every value that `vizid` was given
 * @throws {InputError} naming every wrong parameter
 */
export function readDataRequest(given: Given, visualizations: readonly string[]): DataRequest {
  const { id, vizid, batchsize, pagenumber, offset, formattype } = read(pinboardParameters, {
    ...given,
    vizid: visualizations,
  });
  const first = batchsize !== undefined && pagenumber !== undefined ? (pagenumber - 1) * batchsize : offset;
  if (first !== undefined && !Number.isSafeInteger(first)) {
    throw new InputError("pagenumber: there cannot be that many rows before the page");
  }
  return {
    pinboard: id,
    visualizations: vizid,
    format: formattype,
    paging: {
      ...(batchsize === undefined ? {} : { size: batchsize, offset: 0 }),
      ...(first === undefined ? {} : { offset: first }),
    },
  };
}

/**
 * Reads the parameter of `listvizheaders`: the pinboard's id, undefined when none is given (B.14).
 * @throws {InputError} when it is no GUID
 */
export function readHeaderRequest(given: Given): string | undefined {
  return (given["id"] ?? "") === "" ? undefined : read(headerParameters, given).id;
}

function read<Value>(schema: z.ZodType<Value>, given: object): Value {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map(({ path, message }) => `${String(path[0])}: ${message}`);
  throw new InputError("The parameters are not valid.", { problems: [...new Set(problems)] });
}

/** How the rows of an answer are written: as arrays, or as objects by column name (B.11). */
export type Format = "COMPACT" | "FULL";

/** What writes a row as JSON. */
export function rowEncoder(columnNames: readonly string[], format: Format): (row: readonly unknown[]) => string {
  return format === "COMPACT" ? JSON.stringify : objectWriter(columnNames);
}

/** Writes a row as an object. `JSON.stringify` would put columns called `1` and `2` first. */
function objectWriter(columnNames: readonly string[]): (row: readonly unknown[]) => string {
  const keys = distinctNames(columnNames).map((name, index) => `${index === 0 ? "" : ","}${JSON.stringify(name)}:`);
  return (row) => {
    let text = "{";
    for (const [index, key] of keys.entries()) text += key + JSON.stringify(row[index]);
    return `${text}}`;
  };
}

/** The second column of a name gets `_2`, the third `_3` (B.11), unless a column is called so. */
function distinctNames(columnNames: readonly string[]): string[] {
  const taken = new Set(columnNames);
  const met = new Map<string, number>();
  return columnNames.map((name) => {
    let count = (met.get(name) ?? 0) + 1;
    let distinct = name;
    if (count > 1) {
      while (taken.has(`${name}_${count}`)) count += 1;
      distinct = `${name}_${count}`;
      taken.add(distinct);
    }
    met.set(name, count);
    return distinct;
  });
}
