import { IncompleteReadError, InputError } from "#errors.ts";
import type { Resource } from "./attributes.ts";
import { idOf } from "./entry.ts";
import type { Options } from "./options.ts";
import { type Envelope, lostCursor, pageOf } from "./page.ts";
import { createSeen, type Seen } from "./seen.ts";
import { type Server, titleOf } from "./server.ts";

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
