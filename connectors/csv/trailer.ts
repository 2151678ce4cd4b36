import { IncompleteReadError, InputError } from "#errors.ts";
import { at, type Place } from "./place.ts";
import type { Row } from "./rows.ts";

/** Watches for the row at the end of a file that says how many rows come before it. */
export interface Trailer {
  /**
   * Whether the row is the trailer.
   * @throws {InputError} when it follows the trailer
   */
  take(row: Row): boolean;
  /** @throws {IncompleteReadError} when there was no trailer, or it counts other rows than those */
  assertCount(rows: number): void;
}

/** @param pattern matches a row, its fields joined by `delimiter`, and captures the count; undefined: there is no trailer */
export function trailerOf(pattern: RegExp | undefined, delimiter: string, file: string): Trailer {
  let found: { readonly place: Place; readonly count: string | undefined } | undefined;
  return {
    take(row) {
      if (pattern === undefined) return false;
      if (found !== undefined) {
        const message = "the setting trailer matches this row, but others follow it; make it match the last row alone";
        throw new InputError(`${at(found.place)}: ${message}`);
      }
      const match = pattern.exec(row.fields.join(delimiter));
      if (match === null) return false;
      found = { place: { file, line: row.line }, count: match[1] };
      return true;
    },
    assertCount(rows) {
      if (pattern === undefined) return;
      if (found === undefined) {
        throw new IncompleteReadError(
          `${file} has no last row that the setting trailer matches; it is not complete, or it is written otherwise`,
        );
      }
      const { place, count } = found;
      if (count === undefined || !/^\d+$/.test(count)) {
        throw new InputError(`${at(place)}: what the setting trailer captures is not a number of rows`);
      }
      if (BigInt(count) === BigInt(rows)) return;
      throw new IncompleteReadError(`${at(place)}: counts ${BigInt(count)} rows, and there are ${rows} before it`);
    },
  };
}
