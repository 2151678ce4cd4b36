import type { ConnectionOptions } from "node:tls";
import type { AttributeValue } from "#principals/entry.ts";
import type { ServerAddress } from "./address.ts";
import type { Options } from "./options.ts";

/** One value of a row, in the form that all dialects share (`README.md`); null for NULL. */
export type Cell = AttributeValue | null;

/** Some rows of a result. */
export interface Rows {
  /** The names of the columns, which may come twice. */
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
}

/**
 * A kind of database. To add one: a file beside `postgres.ts` that exports one of these, a scheme in `address.ts`, and a
 * medium in the contract suite. What it owes:
 * - one transaction that only reads and sees the database as of one moment; it refuses what writes;
 * - values in the shared forms, and an error for what the database has left out or cut off with no more than a warning;
 * - errors as they are: `explain` says what they mean.
 */
export interface Dialect {
  /** How messages call it: PostgreSQL. */
  readonly name: string;
  /** Expressions that show a column of equal values, and that compare it byte by byte. */
  grouping(column: string): { readonly shown: string; readonly by: string };
  /** Does no I/O. */
  session(place: Place): Session;
  /** What an error of this dialect means; undefined: nothing is known of it. */
  explain(error: unknown): Meaning | undefined;
}

/**
 * What an error means for the read: the query is wrong, the account may not, the database cannot do it now, it left out data,
 * or it no longer has the tables of the moment (`torn`: reading once more helps).
 */
export interface Meaning {
  readonly kind: "input" | "refused" | "unavailable" | "incomplete" | "torn";
  /** Without values of rows and without secrets. */
  readonly message: string;
}

/** Where a session is opened. */
export interface Place {
  readonly options: Options;
  /** For a server: where it is, with the password. */
  readonly server?: ServerAddress | undefined;
  readonly tls: ConnectionOptions | undefined;
  /** For a file: its absolute path. */
  readonly file?: string | undefined;
}

/** A transaction. One statement at a time. */
export interface Session {
  /** Connects and begins the transaction. */
  begin(): Promise<void>;
  /**
   * The rows of a SELECT, some at a time: at least once, though there may be none. Memory does not grow with them.
   * @param size how many to fetch at a time
   */
  rows(sql: string, size: number): AsyncIterable<Rows>;
  /** Lines for a person: version, protection of the connection, login. */
  describe(): Promise<readonly string[]>;
  /** Stops the statement that is running, and the connection. Whatever waits for it fails or is forgotten. */
  stop(): Promise<void>;
  /** Ends transaction and connection. */
  close(): Promise<void>;
}

/** The name of a column as it stands in a statement. */
export function quoted(name: string, mark = '"'): string {
  return `${mark}${name.replaceAll(mark, mark + mark)}${mark}`;
}

/** A value that no rule may compare. Its text may still be an id. */
export class UnreadableText {
  readonly unreadable: string;
  readonly #text: string;

  constructor(unreadable: string, text: string) {
    this.unreadable = unreadable;
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** Digits that a number of JavaScript keeps, whatever they are. */
const exactDigits = 15;

/** A number that compares exactly, if it can be one. */
export function numberOf(text: string): Cell {
  const value = Number(text);
  if (/^-?[a-z]/i.test(text)) return floatOf(text);
  const isExact = Number.isSafeInteger(value)
    ? /^-?\d+$/.test(text) || digitsOf(text) <= exactDigits
    : Number.isFinite(value) && digitsOf(text) <= exactDigits;
  if (isExact) return value;
  return new UnreadableText(`is a number with more than ${exactDigits} digits; cast it to text in the query`, text);
}

function digitsOf(text: string): number {
  return text.replace(/e.*/i, "").replaceAll(/^-?0*|\D/g, "").length;
}

/** A float, which is a number as it is. */
export function floatOf(text: string): Cell {
  const value = Number(text);
  return Number.isFinite(value) ? value : new UnreadableText(`is ${text}, which is no number`, text);
}

/** A text that a database delivered; what is no UTF-8 has become U+FFFD. */
export function textOf(text: string): Cell {
  if (!text.includes("\u{FFFD}")) return text;
  return new UnreadableText("has bytes that are no text in UTF-8, or U+FFFD in their place", text);
}

/** `2026-11-26T08:30:00Z` of `2026-11-26 08:30:00.000+00`. */
export function timestampOf(text: string): string {
  return text
    .replace(" ", "T")
    .replace(/(\.\d*?)0+(?=\D|$)/, "$1")
    .replace(/\.(?=\D|$)/, "")
    .replace(/\+00(?::?00)?$/, "Z");
}
