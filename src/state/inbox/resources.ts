import { createHash } from "node:crypto";
import { RefusedError } from "#errors.ts";

export type InboxKind = "user" | "group";

/** A JSON object, of a group without its members. */
export type Document = Readonly<Record<string, unknown>>;

export interface StoredResource {
  readonly id: string;
  readonly kind: InboxKind;
  /** Ascending in the order of creation, never used again: lists are in this order. */
  readonly number: number;
  /** 1, and one more with each change of it or its members. */
  readonly version: number;
  /** Epoch milliseconds. */
  readonly created: number;
  readonly changed: number;
  readonly document: Document;
}

export interface Member {
  /** The id of a user or a group. */
  readonly id: string;
  /** What else the provider said of it. */
  readonly document?: Document | undefined;
}

/** Which resources equality finds at once: by a name, or by one of their addresses. */
export type Key = "userName" | "displayName" | "externalId" | "emails";

/** Another user of the source has this userName. */
export class TakenError extends RefusedError {}

/** The database that an inbox is in. */
export interface Database {
  rows<Row extends object>(sql: string, parameters: readonly (string | number | null)[]): Promise<Row[]>;
  /** The items of a JSON list of objects, as `item.value`. @param parameter `$3` */
  readonly each: (parameter: string) => string;
  /** Epoch milliseconds, by the clock that pushes are noted by. */
  readonly now: () => Promise<number>;
}

/** As SQLite and PostgreSQL have it. */
export type Integer = number | bigint;

export interface Row {
  readonly id: string;
  readonly kind: InboxKind;
  readonly number: Integer;
  readonly version: Integer;
  readonly created: Integer;
  readonly changed: Integer;
  readonly document: string;
}

/** Those of a row. */
export const columns = "id, kind, number, version, created, changed, document";

export function storedOf({ id, kind, number, version, created, changed, document }: Row): StoredResource {
  return {
    id,
    kind,
    number: Number(number),
    version: Number(version),
    created: Number(created),
    changed: Number(changed),
    document: JSON.parse(document) as Document,
  };
}

/** What a resource is looked up by: its userName, displayName and externalId. */
export function keysOf(kind: InboxKind, document: Document): [string | null, string | null, string | null] {
  const key = (name: string): string | null => (typeof document[name] === "string" ? keyOf(document[name]) : null);
  return [kind === "user" ? key("userName") : null, key("displayName"), key("externalId")];
}

/** What is looked up of the addresses of a user, each once. */
export function addressesOf({ emails }: Document): string[] {
  const values = (Array.isArray(emails) ? emails : []).map((each: unknown) =>
    typeof each === "object" && each !== null && "value" in each ? each.value : each,
  );
  return [...new Set(values.filter((value) => typeof value === "string").map(keyOf))];
}

/** What indexes have of a value: without case, and of any length and content. */
export function keyOf(value: string): string {
  const lower = value.toLowerCase();
  const isPlain = lower.length <= 200 && !lower.startsWith("#") && !lower.includes("\0") && lower.isWellFormed();
  return isPlain ? lower : `#${createHash("sha256").update(lower, "utf16le").digest("hex")}`;
}
