import { createReadStream, createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { percentEncode } from "#client/form.ts";

/** Which state of the directory: as it is in the service, or as the source has it now, with 1 % drift. */
export type State = "actual" | "drifted";

/** What a service has from its first start, and never deletes (0.7). */
const builtIn = [
  { name: "admin", principalTypeEnum: "LOCAL_USER" },
  { name: "Administrator", principalTypeEnum: "LOCAL_GROUP" },
  { name: "All", principalTypeEnum: "LOCAL_GROUP" },
];

const given = ["Ada", "Björn", "Chloé", "Dimitrios", "Emeka", "Fatima", "Grace", "Hiroshi", "Inés", "Jürgen", "Łucja"];
const family = ["Lovelace", "Hopper", "Nguyễn", "García", "Okafor", "Yamada", "Müller", "O'Neil", "Smith", "Åkesson"];

/**
 * Writes a list of `users` users, in 1 to 9 groups each, and `users / 50` groups, ten in each, as a JSON array of
 * principal objects. The same arguments give the same bytes. Of 1,000 drifted users one has left, one has
 * another name, six another attribute and two another membership; of 100 groups one has another description.
 */
export async function writeDirectory(file: string, users: number, state: State): Promise<void> {
  await pipeline(inPieces(principals(users, state)), createWriteStream(file));
}

/** Writes the body of a `user/sync`, urlencoded, with the list in a file. */
export async function writeForm(file: string, list: string, fields: Readonly<Record<string, string>>): Promise<void> {
  await pipeline(async function* () {
    yield Buffer.from(new URLSearchParams({ ...fields, principals: "" }).toString());
    for await (const block of createReadStream(list)) yield percentEncode(block as Buffer);
  }, createWriteStream(file));
}

function* principals(users: number, state: State): Iterable<object> {
  const drifted = state === "drifted";
  for (const { name, principalTypeEnum } of builtIn) yield { name, displayName: name, principalTypeEnum };
  const groups = Math.max(10, Math.floor(users / 50));
  for (let index = 0; index < groups; index++) {
    yield {
      name: groupName(index),
      displayName: `Team ${index}`,
      description: `Everyone who works in team ${index}${drifted && index % 100 === 50 ? ", and guests" : ""}`,
      principalTypeEnum: "LOCAL_GROUP",
      groupNames: index === 0 ? [] : [groupName(Math.floor((index - 1) / 10))],
    };
  }
  for (let index = 0; index < users; index++) {
    const drift = drifted ? index % 1000 : -1;
    const name = `${drift === 500 ? "v" : "u"}${String(index).padStart(7, "0")}`;
    if (drift === 501) continue;
    const random = generator(index);
    const memberships = new Set<string>();
    for (let count = 1 + Math.floor(random() * 9) + (drift === 502 || drift === 503 ? 1 : 0); count > 0; count--) {
      memberships.add(groupName(Math.floor(random() ** 2 * groups)));
    }
    const displayName = `${given[index % given.length]} ${family[index % family.length]} ${index}`;
    yield {
      name,
      displayName: drift === 504 ? `${displayName} jr.` : displayName,
      ...(index % 3 === 0 ? { description: `Employee ${index}, building ${index % 17}` } : {}),
      mail: drift >= 505 && drift < 510 ? `${name}@new.example.com` : `${name}@example.com`,
      principalTypeEnum: "LOCAL_USER",
      groupNames: [...memberships].sort(),
    };
  }
}

function groupName(index: number): string {
  return `team-${String(index).padStart(5, "0")}`;
}

/** A JSON array in pieces of about 64 KiB. */
function* inPieces(values: Iterable<object>): Iterable<string> {
  let piece = "[";
  let separator = "\n";
  for (const value of values) {
    piece += separator + JSON.stringify(value);
    separator = ",\n";
    if (piece.length < 65_536) continue;
    yield piece;
    piece = "";
  }
  yield `${piece}\n]\n`;
}

/** Numbers from 0 to 1 that depend on the seed alone (mulberry32). */
function generator(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e3779b1);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
