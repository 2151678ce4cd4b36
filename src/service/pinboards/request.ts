import type { z } from "zod";
import { InputError } from "#errors.ts";
import { headerParameters, pinboardParameters } from "#wire/pinboards.ts";
import type { Format } from "./rows.ts";

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
