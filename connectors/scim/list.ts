import { hash } from "node:crypto";
import { IncompleteReadError, InputError, RollcallError, UnavailableError } from "#errors.ts";
import { titleOf } from "./client.ts";
import type { Query, Server } from "./client.ts";
import { itemsOf, JsonError } from "./json.ts";
import type { Options } from "./options.ts";
import type { Resource } from "./resource.ts";
import { idOf, objectOf } from "./resource.ts";

/** A list that is read page by page. */
export interface List {
  /** Below the server's base. */
  readonly path: string;
  /** Besides those of paging. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly paging: Omit<Options["paging"], "by"> & { readonly by: "index" | "cursor" };
}

/** The resources that are new, and at the end why the pass does not prove that they are all; undefined: they are. */
type Pass = AsyncGenerator<readonly Resource[], string | undefined>;

/** What a pass has seen. */
interface Sight {
  /** What was delivered, in this pass or an earlier one. */
  readonly delivered: Seen;
  /** What this pass came by. */
  readonly inPass: Seen;
}

/**
 * Every resource of a list, once.
 *
 * A list may change while it is read. By index, a resource that is deleted lets what follows move up, and one of them
 * slips through between two pages. So every page starts with the last resource of the page before; where another one
 * stands there, or the total is another one, or what came is not as many as the total says, the list is read again,
 * of which only what is new is delivered. A pass to which none of this happened has come by everything that was there
 * all the time: what earlier passes delivered besides is what was deleted meanwhile.
 * @throws {IncompleteReadError} when no pass of `attempts` proves that it is complete
 * @throws what `ask` throws
 */
export async function* resourcesOf(server: Server, list: List): AsyncGenerator<readonly Resource[]> {
  const { attempts, by } = list.paging;
  const delivered = createSeen();
  for (let attempt = 1; ; attempt++) {
    const sight = { delivered, inPass: attempt === 1 ? delivered : createSeen() };
    const problem = yield* by === "cursor" ? byCursor(server, list, sight) : byIndex(server, list, sight);
    if (problem === undefined) return;
    const title = `${server.subject}: GET ${titleOf(new URL(list.path, server.base))}`;
    if (attempt >= attempts) {
      const times = attempts === 1 ? "" : ` (read ${attempts} times)`;
      throw new IncompleteReadError(`${title}: ${problem}${times}; nothing is concluded from what came`);
    }
    server.warn(`${title}: ${problem}; it is read again (${attempt + 1} of ${attempts})`);
  }
}

async function* byIndex(server: Server, { path, parameters, paging }: List, sight: Sight): Pass {
  const { count, overlap } = paging;
  let total: number | undefined;
  let last: string | undefined;
  for (let next = 1; total === undefined || next <= total;) {
    const startIndex: number = overlap && last !== undefined ? next - 1 : next;
    const expected = startIndex < next ? last : undefined;
    const query = { path, parameters: { ...parameters, startIndex: `${startIndex}`, count: `${count}` } };
    const page = pageOf(server, query);
    let received = 0;
    let step = await page.next();
    for (; step.done !== true; step = await page.next()) {
      if (received === 0 && expected !== undefined && idIn(step.value[0], path, server) !== expected) {
        await page.return({});
        return `at ${startIndex} there is another one than before, so it changed while it was read (or the server does not page as it was asked: paging: { overlap: false })`;
      }
      received += step.value.length;
      last = idIn(step.value.at(-1), path, server);
      const news = newOf(step.value, sight, path, server);
      if (news.length > 0) yield news;
    }
    const { totalResults, startIndex: given } = envelope(step.value);
    if (totalResults === undefined) {
      throw new InputError(
        `${server.subject}: ${path}: the list has no totalResults; every list has it (RFC 7644, 3.4.2)`,
      );
    }
    if (received > 0 && given !== undefined && given !== startIndex) {
      throw new InputError(
        `${server.subject}: ${path}: the list starts at ${given} where ${startIndex} was asked for; does the server page otherwise? Try paging: { overlap: false }`,
      );
    }
    if (total !== undefined && totalResults !== total) {
      return `the total was ${total} and is now ${totalResults}: it changed while it was read`;
    }
    total = totalResults;
    const progress: number = received - (next - startIndex);
    next += progress;
    if (progress > 0 || next > total) continue;
    const hint = received === 0 ? "" : "; a server that gives one at a time needs paging: { overlap: false }";
    return `it ends after ${next - 1} of ${total}${hint}`;
  }
  return total === sight.inPass.size ? undefined : mismatch(sight.inPass.size, total);
}

/** More pages than these without anything new, and the server goes round in circles. */
const emptyPages = 100;

async function* byCursor(server: Server, { path, parameters, paging }: List, sight: Sight): Pass {
  let cursor = "";
  let total: number | undefined;
  let idle = 0;
  for (;;) {
    const before = sight.inPass.size;
    const page = pageOf(server, { path, parameters: { ...parameters, cursor, count: `${paging.count}` } });
    let step = await page.next();
    for (; step.done !== true; step = await page.next()) {
      const news = newOf(step.value, sight, path, server);
      if (news.length > 0) yield news;
    }
    if (step.value === lostCursor) return lostCursor;
    const { nextCursor, totalResults } = step.value;
    total = totalResults ?? total;
    if (nextCursor === undefined) break;
    idle = sight.inPass.size === before ? idle + 1 : 0;
    if (nextCursor === cursor || idle >= emptyPages) return "its pages go round in circles";
    cursor = nextCursor;
  }
  if (total === undefined || paging.totals === "estimated" || total === sight.inPass.size) return undefined;
  return `${mismatch(sight.inPass.size, total)} (where the server only estimates it: paging: { totals: estimated })`;
}

function mismatch(received: number, total: number): string {
  return `totalResults is ${total}, and there are ${received}`;
}

function envelope(value: Envelope | typeof lostCursor): Envelope {
  return value === lostCursor ? {} : value;
}

/** What no pass has delivered yet. */
function newOf(resources: readonly Resource[], sight: Sight, path: string, server: Server): readonly Resource[] {
  return resources.filter((resource) => {
    const id = idIn(resource, path, server);
    const isNew = sight.delivered.add(id);
    if (sight.inPass !== sight.delivered) sight.inPass.add(id);
    return isNew;
  });
}

/** @throws {InputError} when a resource has no id */
function idIn(resource: Resource | undefined, path: string, server: Server): string {
  const id = resource === undefined ? undefined : idOf(resource);
  if (id !== undefined) return id;
  throw new InputError(`${server.subject}: ${path}: a resource without an id; every resource has one (RFC 7643, 3.1)`);
}

/** What a list says of itself. */
export interface Envelope {
  readonly totalResults?: number;
  /** The place of the first resource, from 1. */
  readonly startIndex?: number;
  readonly nextCursor?: string;
}

/** The server has forgotten, or does not know, the cursor. */
export const lostCursor = "the server no longer knows the cursor";

/** A page with more resources than this is delivered while it arrives; when it breaks off, it is too late to repeat the request. */
const longestHeldPage = 1_000;

/**
 * The resources of one page, in one batch or several, then what the list says about itself.
 * @throws what `Server.get` throws; {InputError} when the answer is not a list
 */
export async function* pageOf(
  server: Server,
  query: Pick<Query<never>, "path" | "parameters">,
): AsyncGenerator<readonly Resource[], Envelope | typeof lostCursor> {
  const title = `${server.subject}: GET ${titleOf(new URL(query.path, server.base))}`;
  const atLeast = Math.max(longestHeldPage, Number(query.parameters["count"] ?? 0)) + 1;
  interface Start {
    readonly first: readonly Resource[];
    /** The list is longer: the rest of it, still arriving. */
    readonly rest?: Page;
    readonly envelope: Envelope;
    close(): void;
  }
  const start = await server.get<Start | typeof lostCursor>({
    ...query,
    keepsOpen: true,
    async use({ body, close }) {
      const rest = resourcesIn(body, title);
      const first: Resource[] = [];
      for (;;) {
        const { done, value } = await rest.next();
        if (done === true) {
          close();
          return { first, envelope: value, close };
        }
        for (const resource of value) first.push(resource);
        if (first.length >= atLeast) return { first, rest, envelope: {}, close };
      }
    },
    refused: ({ status, scimType }) =>
      "cursor" in query.parameters && status === 400 && /^(?:expired|invalid)Cursor$/i.test(scimType ?? "")
        ? { value: lostCursor }
        : undefined,
  });
  if (start === lostCursor) return start;
  if (start.rest === undefined) {
    if (start.first.length > 0) yield start.first;
    return start.envelope;
  }
  try {
    yield start.first;
    return yield* start.rest;
  } catch (error) {
    server.signal.throwIfAborted();
    if (error instanceof RollcallError) throw error;
    const reason = error instanceof JsonError ? error.message : "broke off";
    throw new UnavailableError(`${title}: the answer, which the server does not divide into pages, ${reason}`, {
      cause: error,
    });
  } finally {
    start.close();
  }
}

type Page = AsyncGenerator<readonly Resource[], Envelope>;

/** @throws {JsonError}, {InputError} */
async function* resourcesIn(body: AsyncIterable<Buffer>, title: string): Page {
  let envelope: Resource | undefined;
  for await (const items of itemsOf(body)) {
    const resources: Resource[] = [];
    for (const item of items) {
      const value = item.kind === "list" ? objectOf(item.envelope) : objectOf(item.value);
      if (value === undefined) throw new InputError(`${title}: the list holds something that is no resource`);
      if (item.kind === "list") envelope = value;
      else resources.push(value);
    }
    if (resources.length > 0) yield resources;
  }
  if (envelope === undefined) {
    throw new InputError(`${title}: the answer is JSON but no ListResponse; is the url that of a SCIM 2.0 server?`);
  }
  return envelopeOf(envelope, title);
}

/** @throws {InputError} when a number is none */
export function envelopeOf(list: Resource, title: string): Envelope {
  const { nextCursor } = list;
  const totalResults = whole(list, "totalResults", title);
  const startIndex = whole(list, "startIndex", title);
  return {
    ...(totalResults === undefined ? {} : { totalResults }),
    ...(startIndex === undefined ? {} : { startIndex }),
    ...(typeof nextCursor === "string" && nextCursor !== "" ? { nextCursor } : {}),
  };
}

function whole(list: Resource, name: string, title: string): number | undefined {
  const value = list[name];
  if (value === undefined || value === null) return undefined;
  const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
  if (typeof number === "number" && Number.isSafeInteger(number) && number >= 0) return number;
  throw new InputError(`${title}: ${name} is not a whole number`);
}

/**
 * Which ids have been seen. It knows them by 128 bits of their hash, outside of the heap: about 32 bytes for each, so
 * that a million take 32 MB. That is the one thing here that grows with the directory; without it, a resource that
 * moved between two pages could not be told from one that is missing.
 */
export interface Seen {
  readonly size: number;
  /** False when it was seen before. */
  add(id: string): boolean;
}

const words = 4;
/** Many small tables rather than a large one: growing it would let nothing else run. */
const tables = 256;

interface Table {
  slots: Uint32Array;
  used: number;
}

export function createSeen(): Seen {
  const shards = Array.from({ length: tables }, (): Table => ({ slots: new Uint32Array(16 * words), used: 0 }));
  let size = 0;
  return {
    get size() {
      return size;
    },
    add(id) {
      const digest = hash("sha256", id, "buffer");
      const key = new Uint32Array(words);
      for (let word = 0; word < words; word++) key[word] = digest.readUInt32LE(word * 4);
      // All zeros is a free slot.
      key[0] = (key[0] ?? 0) | 1;
      const shard = shards[digest[16] ?? 0];
      if (shard === undefined || !insert(shard, key, 0)) return false;
      size++;
      if (shard.used * words * 2 > shard.slots.length) grow(shard);
      return true;
    },
  };
}

/** Whether the key at `from` in `keys` was new. */
function insert(table: Table, keys: Uint32Array, from: number): boolean {
  const { slots } = table;
  const count = slots.length / words;
  for (let slot = (keys[from + 1] ?? 0) % count; ; slot = (slot + 1) % count) {
    const at = slot * words;
    if (slots[at] === 0) {
      slots.set(keys.subarray(from, from + words), at);
      table.used++;
      return true;
    }
    let word = 0;
    while (word < words && slots[at + word] === keys[from + word]) word++;
    if (word === words) return false;
  }
}

function grow(table: Table): void {
  const old = table.slots;
  table.slots = new Uint32Array(old.length * 2);
  table.used = 0;
  for (let at = 0; at < old.length; at += words) if (old[at] !== 0) insert(table, old, at);
}
