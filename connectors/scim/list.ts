import { InputError } from "#errors.ts";
import { arriving } from "#http/directory/api.ts";
import { itemsOf } from "#http/directory/json.ts";
import { IdDigest, Seen } from "#http/directory/seen.ts";
import { unseen, untilProven } from "#http/directory/proof.ts";
import type { Pass, Progress } from "#http/directory/proof.ts";
import type { Query, Server } from "./client.ts";
import type { Options } from "./options.ts";
import type { Resource } from "./schema.ts";
import { idOf, objectOf } from "./resource.ts";

/** What reading a list asks of a server. */
export type Lists = Pick<Server, "ask" | "base" | "signal" | "subject" | "titleOf" | "warn">;

/** How lists are read, as configured and as the server announces. */
export interface Paging extends Omit<Options["paging"], "by"> {
  readonly by: "index" | "cursor";
  /** An empty cursor asks for pages by cursor; undefined: the server has no others, or chooses these by itself. */
  readonly firstCursor?: "" | undefined;
  /** True: a target's, which has no option `paging`, and no message advises to set it. */
  readonly isTargets?: true | undefined;
}

/** What to do about it, where there is an option for it. */
function advice({ isTargets }: Paging, text: string): string {
  return isTargets === true ? "" : text;
}

/** A list to read page by page. */
export interface List {
  /** Below the server's base. */
  readonly path: string;
  /** Without those for paging. */
  readonly parameters: Readonly<Record<string, string>>;
  /** The same for a read whose ids alone matter. */
  readonly idParameters: Readonly<Record<string, string>>;
  readonly paging: Paging;
  /** What to do where nothing proves how many there are. Absent: the configuration says how many there must be. */
  readonly unset?: string | undefined;
}

/**
 * Every resource of a list, once.
 *
 * A list may change while it is read. By index, a deleted resource moves everything behind it up by one, and one resource
 * slips through between two pages. So every page starts with the last resource of the page before. If a different one is
 * there, the total changes, or the number of resources is not the total, the list is read again, and only what is new is
 * delivered. A pass without any of this has seen everything that was there all the time; what only earlier passes
 * delivered was deleted meanwhile.
 * @throws {IncompleteReadError} none of `attempts` passes proves that it is complete
 * @throws what `Server.ask` throws
 */
export function resourcesOf(server: Lists, list: List): AsyncGenerator<readonly Resource[]> {
  const { attempts, by } = list.paging;
  const title = server.titleOf(new URL(list.path, server.base));
  const sizes = { isRefused: false };
  return untilProven(server, title, attempts, (progress) =>
    by === "cursor" ? byCursor(server, list, progress, sizes) : byIndex(server, list, progress),
  );
}

async function* byIndex(server: Lists, list: List, progress: Progress): Pass<Resource> {
  const { path, parameters, paging } = list;
  const { count, overlap } = paging;
  let total: number | undefined;
  let last: string | undefined;
  let next = 1;
  // A server that sends more than was asked for sends everything at once.
  let isPaged = false;
  for (; total === undefined || next <= total;) {
    const startIndex: number = overlap && last !== undefined ? next - 1 : next;
    const expected = startIndex < next ? last : undefined;
    const query = { path, parameters: { ...parameters, startIndex: `${startIndex}`, count: `${count}` } };
    const page = pageOf(server, query);
    let received = 0;
    let step = await page.next();
    for (; step.done !== true; step = await page.next()) {
      if (received === 0 && expected !== undefined && requiredId(step.value[0], path, server) !== expected) {
        await page.return({});
        return `at ${startIndex} there is another resource than before, so the list changed while it was read (or the server does not page as requested${advice(paging, ": paging: { overlap: false }")})`;
      }
      received += step.value.length;
      last = requiredId(step.value.at(-1), path, server);
      const news = unseen(step.value, progress, (resource) => requiredId(resource, path, server));
      if (news.length > 0) yield news;
    }
    const { totalResults, startIndex: given, nextCursor } = envelope(step.value);
    if (totalResults === undefined) {
      const why =
        nextCursor === undefined
          ? "every list has it (RFC 7644, 3.4.2)"
          : "it has a cursor (RFC 9865), so let paging be by cursor";
      throw new InputError(`${server.subject}: ${path}: the list has no totalResults; ${why}`);
    }
    if (received > 0 && given !== undefined && given !== startIndex) {
      throw new InputError(
        `${server.subject}: ${path}: the list starts at ${given} where ${startIndex} was requested; does the server page differently?${advice(paging, " Try paging: { overlap: false }")}`,
      );
    }
    if (total !== undefined && totalResults !== total) {
      return changedTotal(total, totalResults);
    }
    total = totalResults;
    const advance: number = received - (next - startIndex);
    next += advance;
    isPaged ||= received <= count;
    if (advance > 0 || next > total) continue;
    const hint =
      received === 0 ? "" : advice(paging, "; a server that gives one at a time needs paging: { overlap: false }");
    return `it ends after ${next - 1} of ${total}${hint}`;
  }
  if (total !== progress.seen.size) return mismatch(progress.seen.size, total);
  if (total === 0 || !isPaged) return undefined;
  return beyondTheEnd(server, list, progress, { next, last });
}

/**
 * There are servers whose total is that of the page, or is capped: it proves nothing by itself. So the list is asked for
 * what comes after its end.
 * @returns why the total is wrong
 */
async function beyondTheEnd(
  server: Lists,
  { path, parameters, paging, unset }: List,
  { seen }: Progress,
  { next, last }: { readonly next: number; readonly last: string | undefined },
): Promise<string | undefined> {
  const startIndex = paging.overlap ? next - 1 : next;
  const query = { path, parameters: { ...parameters, startIndex: `${startIndex}`, count: "2" } };
  let first: string | undefined;
  // Some servers refuse to start after the last one.
  for await (const resources of pageOf(server, query, { empty: paging.overlap ? [] : [400, 404, 416] })) {
    first ??= requiredId(resources[0], path, server);
    if (resources.every((resource) => seen.has(requiredId(resource, path, server)))) continue;
    return `totalResults is ${next - 1}, and there is a resource after these; the list grew, or the server counts only part of it`;
  }
  if (first !== undefined && first !== last && unset !== undefined) {
    server.warn(
      `${server.subject}: ${path}: the server ignores startIndex (startIndex=${startIndex} returned another resource), so nothing proves that these ${next - 1} are all; ${unset}`,
    );
  }
  return undefined;
}

/** After so many pages without anything new, the server is going round in circles. */
const emptyPages = 100;

/** The least part of a total that is only estimated. */
const closeEnough = 0.9;

/** Whether the server has refused the size of pages that it was asked for. */
interface Sizes {
  isRefused: boolean;
}

async function* byCursor(server: Lists, list: List, progress: Progress, sizes: Sizes): Pass<Resource> {
  const { path, parameters, paging, unset } = list;
  const ids = new IdDigest();
  const pages = cursorPages(server, list, parameters, sizes);
  let received = 0;
  let step = await pages.next();
  for (; step.done !== true; step = await pages.next()) {
    received += step.value.length;
    for (const resource of step.value) ids.add(requiredId(resource, path, server));
    const news = unseen(step.value, progress, (resource) => requiredId(resource, path, server));
    if (news.length > 0) yield news;
    if (received - progress.seen.size > emptyPages * paging.count) return circles;
  }
  if (typeof step.value === "string") return step.value;
  const { total, isOneFullPage } = step.value;
  const { size } = progress.seen;
  if (total === undefined || paging.totals === "estimated") {
    if (received !== size) return "a resource came twice, and no total says that no other is missing for it";
    if (unset === undefined) return undefined;
    if (total === undefined) {
      if (isOneFullPage)
        server.warn(
          `${server.subject}: ${path}: ${size} resources, as many as were asked for, and neither totalResults nor a cursor says whether these are all; ${unset}`,
        );
      return secondRead(server, list, ids, sizes);
    }
    // What is far from its estimate has ended early; a number that somebody wrote proves more than an estimate.
    if (size >= total * closeEnough) return undefined;
    return `${mismatch(size, total)}: too few even for an estimate; if these are all, ${unset}`;
  }
  if (total === size) return undefined;
  // Fewer than the total may be a part of the list, which no setting should let through.
  const hint =
    size > total ? advice(paging, " (where the server only estimates it: paging: { totals: estimated })") : "";
  return `${mismatch(size, total)}${hint}`;
}

const circles = "its pages go in circles";

/**
 * Every resource of a list, from cursor to cursor (RFC 9865), up to the page without one.
 * @returns the total, where the server says one; a text: why the read has to begin again
 */
async function* cursorPages(
  server: Lists,
  { path, paging }: List,
  parameters: List["parameters"],
  sizes: Sizes,
): AsyncGenerator<readonly Resource[], { total: number | undefined; isOneFullPage: boolean } | string> {
  const cursors = new Seen();
  let cursor: string | undefined = paging.firstCursor;
  let total: number | undefined;
  let empty = 0;
  for (;;) {
    const at: Record<string, string> = cursor === undefined ? {} : { cursor };
    const count: Record<string, string> = sizes.isRefused ? {} : { count: `${paging.count}` };
    const page = pageOf(server, { path, parameters: { ...parameters, ...at, ...count } }, { byCursor: true });
    let received = 0;
    let step = await page.next();
    for (; step.done !== true; step = await page.next()) {
      received += step.value.length;
      yield step.value;
    }
    if (step.value === refusedCount) {
      sizes.isRefused = true;
      return `${refusedCount} (count=${paging.count}), so it chooses itself`;
    }
    if (typeof step.value === "string") return step.value;
    const { nextCursor, totalResults } = step.value;
    // A cursor may be a mere offset: then a deletion moves somebody past it.
    if (paging.totals === "exact" && total !== undefined && totalResults !== undefined && totalResults !== total)
      return changedTotal(total, totalResults);
    total = totalResults ?? total;
    if (nextCursor === undefined) return { total, isOneFullPage: cursors.size === 0 && received === paging.count };
    empty = received === 0 ? empty + 1 : 0;
    if (!cursors.add(nextCursor) || empty >= emptyPages) return circles;
    cursor = nextCursor;
  }
}

/**
 * The end of pages by cursor is the absence of a cursor, which an answer that lost it has, too. Without a total it is read
 * again, for its ids alone.
 * @returns how the ids differ
 */
async function secondRead(server: Lists, list: List, first: IdDigest, sizes: Sizes): Promise<string | undefined> {
  const second = new IdDigest();
  const pages = cursorPages(server, list, list.idParameters, sizes);
  let step = await pages.next();
  for (; step.done !== true; step = await pages.next())
    for (const resource of step.value) second.add(requiredId(resource, list.path, server));
  if (typeof step.value === "string") return step.value;
  if (second.equals(first)) return undefined;
  return second.count === first.count
    ? `two reads had ${first.count} resources each, and not the same ones: it changed while it was read`
    : `two reads differ: ${first.count} resources, then ${second.count}`;
}

function changedTotal(before: number, now: number): string {
  return `the total was ${before} and is now ${now}: it changed while it was read`;
}

function mismatch(received: number, total: number): string {
  return `totalResults is ${total}, and there are ${received}`;
}

function envelope(value: Envelope | string): Envelope {
  return typeof value === "string" ? {} : value;
}

/** @throws {InputError} the resource has no id */
function requiredId(resource: Resource | undefined, path: string, server: Lists): string {
  const id = resource === undefined ? undefined : idOf(resource);
  if (id !== undefined) return id;
  throw new InputError(`${server.subject}: ${path}: a resource without an id; every resource has one (RFC 7643, 3.1)`);
}

/** What a ListResponse says about itself. */
export interface Envelope {
  readonly totalResults?: number | undefined;
  /** The index of the first resource, from 1. */
  readonly startIndex?: number | undefined;
  readonly nextCursor?: string | undefined;
}

/** Instead of a page: the server no longer accepts the cursor. */
export const lostCursor = "the server no longer knows the cursor";
/** Instead of a page: the server does not make pages of this size. */
export const refusedCount = "the server refuses the size of pages";

/** A page with more resources than this is delivered while it arrives; when it breaks off, it is too late to repeat the request. */
const longestHeldPage = 1_000;

/**
 * The resources of one page, in one batch or several, then what the list says about itself.
 * @param options.empty the refusals that mean that there is nothing
 * @param options.byCursor the server may refuse a cursor, or the size of pages
 * @throws what `Server.ask` throws; {InputError} when the answer is not a list
 */
export async function* pageOf(
  server: Lists,
  query: Pick<Query<never>, "path" | "parameters">,
  { empty = [], byCursor = false }: { readonly empty?: readonly number[]; readonly byCursor?: boolean } = {},
): AsyncGenerator<readonly Resource[], Envelope | typeof lostCursor | typeof refusedCount> {
  const title = server.titleOf(new URL(query.path, server.base));
  const atLeast = Math.max(longestHeldPage, Number(query.parameters["count"] ?? 0)) + 1;
  interface Start {
    readonly first: readonly Resource[];
    /** The list is longer: the rest of it, still arriving. */
    readonly rest?: Page;
    readonly envelope: Envelope;
    readonly close: () => void;
  }
  const start = await server.ask<Start | typeof lostCursor | typeof refusedCount>({
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
    refused: ({ status, body }) => {
      if (empty.includes(status)) return { value: { first: [], envelope: {}, close: () => {} } };
      const type = byCursor && status === 400 ? String(objectOf(body)?.["scimType"]) : "";
      if (/^(?:expired|invalid)Cursor$/i.test(type) && (query.parameters["cursor"] ?? "") !== "")
        return { value: lostCursor };
      return /^invalidCount$/i.test(type) && "count" in query.parameters ? { value: refusedCount } : undefined;
    },
  });
  if (typeof start === "string") return start;
  if (start.rest === undefined) {
    if (start.first.length > 0) yield start.first;
    return start.envelope;
  }
  const { first, rest, close } = start;
  const what = "the answer, which the server does not divide into pages,";
  return yield* arriving(server, { title, what, first, rest, close });
}

type Page = AsyncGenerator<readonly Resource[], Envelope>;

/** @throws {JsonError}, {InputError} */
async function* resourcesIn(body: AsyncIterable<Buffer>, title: string): Page {
  let envelope: Resource | undefined;
  for await (const items of itemsOf(body)) {
    const resources: Resource[] = [];
    for (const item of items) {
      const value = item.kind === "list" ? objectOf(item.envelope) : objectOf(item.value);
      if (value === undefined) throw new InputError(`${title}: the list holds something that is not a resource`);
      if (item.kind === "list") envelope = value;
      else resources.push(value);
    }
    if (resources.length > 0) yield resources;
  }
  if (envelope === undefined) {
    throw new InputError(
      `${title}: the answer is JSON but not a ListResponse; does the url lead to a SCIM 2.0 server?`,
    );
  }
  return envelopeOf(envelope, title);
}

/** @throws {InputError} `totalResults` or `startIndex` is not a number, or `nextCursor` no cursor */
export function envelopeOf(list: Resource, title: string): Envelope {
  const totalResults = whole(list, "totalResults", title);
  const startIndex = whole(list, "startIndex", title);
  return {
    totalResults,
    startIndex,
    nextCursor: cursorOf(list["nextCursor"], title),
  };
}

/** The place of the next page; some servers send a number. @throws {InputError} it is something else: not the last page */
function cursorOf(value: unknown, title: string): string | undefined {
  if (value === undefined || value === null || value === "") return undefined;
  if (typeof value === "string") return value;
  if (typeof value === "number") return String(value);
  throw new InputError(`${title}: nextCursor is neither a text nor a number, so there is no next page to ask for`);
}

function whole(list: Resource, name: string, title: string): number | undefined {
  const value = list[name];
  if (value === undefined || value === null) return undefined;
  const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value;
  if (typeof number === "number" && Number.isSafeInteger(number) && number >= 0) return number;
  throw new InputError(`${title}: ${name} is not a whole number`);
}
