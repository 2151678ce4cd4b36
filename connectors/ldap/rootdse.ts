import { type Cursor, enter, readText, tags } from "./ber.ts";
import { lookUp } from "./search.ts";
import type { Session } from "./session.ts";

/** What a server tells about itself; empty where it tells nothing. */
export type RootDse = ReadonlyMap<string, readonly string[]>;

const attributes = [
  "supportedControl",
  "supportedCapabilities",
  "namingContexts",
  "vendorName",
  "vendorVersion",
  "objectClass",
  "dnsHostName",
  "dsServiceName",
  "highestCommittedUSN",
];

/** Reads what the server tells about itself. */
export async function readRootDse(session: Session): Promise<RootDse> {
  return new Map((await readOne(session, "", attributes, "the server's description of itself")) ?? []);
}

/** One entry's texts, by the attributes' names in lower case; undefined when it does not exist. */
export async function readOne(
  session: Session,
  base: string,
  attributes: readonly string[],
  what: string,
): Promise<RootDse | undefined> {
  const [message] = await lookUp(session, { base, scope: "base", filter: "(objectClass=*)", attributes, what });
  return message === undefined ? undefined : new Map(textsOf(message));
}

function* textsOf(bytes: Buffer): Generator<[string, string[]]> {
  const cursor: Cursor = { bytes, at: 0 };
  enter(cursor, tags.sequence);
  cursor.at = enter(cursor, tags.integer);
  enter(cursor, tags.searchEntry);
  readText(cursor);
  const end = enter(cursor, tags.sequence);
  while (cursor.at < end) {
    enter(cursor, tags.sequence);
    const name = readText(cursor).toLowerCase();
    const valuesEnd = enter(cursor, tags.set);
    const values: string[] = [];
    while (cursor.at < valuesEnd) values.push(readText(cursor));
    yield [name, values];
  }
}
