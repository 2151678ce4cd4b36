import { IncompleteReadError, InputError } from "#errors.ts";
import { formatNumber } from "#text.ts";
import type { DirectoryApi } from "./api.ts";
import { pagesOf } from "./pages.ts";
import type { PagedList } from "./pages.ts";
import { IdDigest, Seen } from "./seen.ts";

/** What proves that a list is complete, besides its end: "success and less" is the usual fault of these services. */
export type Proof =
  /** The service counts: it is asked before the first page and after the last. `name`: what counts, for messages. */
  | { readonly by: "count"; readonly count: () => Promise<number>; readonly name?: string | undefined }
  /** Every page says how many there are, or the first one does. `name`: the field, for messages. */
  | { readonly by: "total"; readonly name: string }
  /** Known from elsewhere: the members of a group that says how many it has. `again`: asks it once more, for a further pass. */
  | {
      readonly by: "expected";
      readonly count: number;
      readonly name: string;
      readonly again?: (() => Promise<number>) | undefined;
    }
  /** Whatever else the service can be asked: why these are not all, when so many came; undefined: they are. */
  | { readonly by: "check"; readonly check: (found: number) => Promise<string | undefined> }
  /** It is read again, for its ids alone. `url`: in another order, where the service can. */
  | { readonly by: "twoEqualReads"; readonly url?: URL | undefined }
  /** Only the end that the protocol defines: for services that cannot do better, and say so. */
  | { readonly by: "end" };

/** A list to read to its proven end. */
export interface ProvenList<Item> extends PagedList<Item> {
  /** For messages: `source corp: GET https://graph.microsoft.com/v1.0/users`. Default: of the url. */
  readonly title?: string | undefined;
  /** The id, which no other item of the list has. @throws {InputError} it has none */
  readonly idOf: (item: Item) => string;
  readonly proof: Proof;
  /** What to do when it is not proven. */
  readonly hint?: string | undefined;
  /** The setting for the fewest there must be, if the configuration does not have it: what a doubt is to be settled by. */
  readonly unset?: string | undefined;
  /** How often to read a list that does not add up. Default: 2. */
  readonly attempts?: number | undefined;
}

/** The ids that have come so far. */
export interface Progress {
  /** Delivered, in this pass or an earlier one. */
  readonly delivered: Seen;
  /** Seen in this pass. */
  readonly seen: Seen;
}

/** The items that no earlier pass delivered, then why this pass does not prove that the list is complete; undefined: it does. */
export type Pass<Item> = AsyncGenerator<readonly Item[], string | undefined>;

/**
 * Reads a list again while it does not prove to be complete; only what is new is delivered. A pass that proves it has
 * seen everything that was there all the time; what only earlier passes delivered was deleted meanwhile.
 * @throws {IncompleteReadError} none of `attempts` passes proves that it is complete
 */
export async function* untilProven<Item>(
  { warn }: Pick<DirectoryApi, "warn">,
  title: string,
  attempts: number,
  pass: (progress: Progress) => Pass<Item>,
): AsyncGenerator<readonly Item[]> {
  const delivered = new Seen();
  for (let attempt = 1; ; attempt++) {
    const problem = yield* pass({ delivered, seen: attempt === 1 ? delivered : new Seen() });
    if (problem === undefined) return;
    if (attempt >= attempts) {
      const times = attempts === 1 ? "" : ` (read ${attempts} times)`;
      throw new IncompleteReadError(`${title}: ${problem}${times}; the records read so far are not used`, {
        transient: true,
      });
    }
    warn(`${title}: ${problem}; reading it again (${attempt + 1} of ${attempts})`);
  }
}

/** The items that no pass has delivered yet. */
export function unseen<Item>(
  items: readonly Item[],
  { delivered, seen }: Progress,
  idOf: (item: Item) => string,
): readonly Item[] {
  return items.filter((item) => {
    const id = idOf(item);
    const isNew = delivered.add(id);
    if (seen !== delivered) seen.add(id);
    return isNew;
  });
}

/** The items of the only answer, all of them. */
function noting<Item>(items: readonly Item[], { seen }: Progress, idOf: (item: Item) => string): readonly Item[] {
  for (const item of items) seen.add(idOf(item));
  return items;
}

/**
 * Every item of a list, in pages: once, but for those of a list that comes in one answer. Memory grows by 32 bytes for each id.
 * @throws {IncompleteReadError} it is not proven to be complete; a link leads to another server
 * @throws what `DirectoryApi.get` throws
 */
export function readList<Item>(api: DirectoryApi, list: ProvenList<Item>): AsyncGenerator<readonly Item[]> {
  const title = list.title ?? api.titleOf(list.url);
  return untilProven(api, title, list.attempts ?? 2, async function* (progress) {
    const problem = yield* passOf(api, list, title, progress);
    return problem === undefined || list.hint === undefined ? problem : `${problem}; ${list.hint}`;
  });
}

async function* passOf<Item>(api: DirectoryApi, list: ProvenList<Item>, title: string, progress: Progress): Pass<Item> {
  const { proof, idOf } = list;
  const before = proof.by === "count" ? await proof.count() : undefined;
  const ids = new IdDigest();
  let total: number | undefined;
  let received = 0;
  let last = 0;
  // In one answer nothing moves: two records with one id are two.
  const isWhole = list.paging.by === "none";
  const pages = pagesOf(api, list);
  let step = await pages.next();
  for (; step.done !== true; step = await pages.next()) {
    const { items, total: said } = step.value;
    if (proof.by === "total" && said === undefined && total === undefined && !isWhole) throw noTotal(title, proof.name);
    if (proof.by === "total" && said !== undefined && total !== undefined && said !== total)
      return changed(proof.name, total, said);
    total = said ?? total;
    if (proof.by === "twoEqualReads") for (const item of items) ids.add(idOf(item));
    const known = progress.seen.size;
    const news =
      isWhole && progress.seen === progress.delivered ? noting(items, progress, idOf) : unseen(items, progress, idOf);
    received += items.length;
    last = items.length;
    // A service that ignores offsets or numbers of pages sends its first page for ever.
    if (!isWhole && items.length > 0 && progress.seen.size === known) {
      // Others send their last page once more after the end. What the only page calls a total may be its own size.
      const isAll = known === (proof.by === "expected" ? proof.count : proof.by === "count" ? before : total);
      const isShort = "size" in list.paging && items.length < (list.paging.size ?? 0);
      if (!isAll || (proof.by === "total" && items.length >= known && !isShort))
        return "a page holds only records that came before: the service goes in circles, or the list changed";
      await pages.return(undefined);
      step = { done: true, value: undefined };
      break;
    }
    if (news.length > 0) yield news;
  }
  if (step.value !== undefined) return step.value;
  const found = isWhole ? received : progress.seen.size;
  if (proof.by === "count") {
    const after = await proof.count();
    return before === after
      ? mismatch(`${proof.name ?? "the service"} counts`, after, found)
      : changed(proof.name === undefined ? "the service's count" : `the count of ${proof.name}`, before ?? 0, after);
  }
  if (proof.by === "check") return proof.check(found);
  if (proof.by === "total") {
    if (total === undefined) throw noTotal(title, proof.name);
    return mismatch(`${proof.name} is`, total, found);
  }
  if (proof.by === "expected") {
    const isFirst = progress.seen === progress.delivered;
    return mismatch(`${proof.name} is`, isFirst ? proof.count : ((await proof.again?.()) ?? proof.count), found);
  }
  if (found < received)
    return "a record came twice: two have one id, or another one is missing for it since the list changed while it was read";
  if (list.unset !== undefined && "size" in list.paging && last >= (list.paging.size ?? Infinity))
    api.warn(
      `${title}: the last page is full (${last}), so that nothing but the missing link says that it is the last; set ${list.unset} to the fewest there can be`,
    );
  return proof.by === "end" ? undefined : secondRead(api, { ...list, url: proof.url ?? list.url }, ids);
}

/** @returns how the ids of a second read differ; undefined: they are the same */
async function secondRead<Item>(
  api: DirectoryApi,
  list: ProvenList<Item>,
  first: IdDigest,
): Promise<string | undefined> {
  const second = new IdDigest();
  const pages = pagesOf(api, list);
  let step = await pages.next();
  for (; step.done !== true; step = await pages.next())
    for (const item of step.value.items) second.add(list.idOf(item));
  if (step.value !== undefined) return step.value;
  if (second.equals(first)) return undefined;
  return second.count === first.count
    ? `two reads had ${formatNumber(first.count)} records each, and not the same ones: it changed while it was read`
    : `two reads differ: ${formatNumber(first.count)} records, then ${formatNumber(second.count)}`;
}

function changed(name: string, before: number, now: number): string {
  return `${name} was ${formatNumber(before)} and is now ${formatNumber(now)}: it changed while it was read`;
}

function mismatch(says: string, expected: number, found: number): string | undefined {
  return expected === found ? undefined : `${says} ${formatNumber(expected)}, and there are ${formatNumber(found)}`;
}

function noTotal(title: string, name: string): InputError {
  return new InputError(`${title}: the first page has no ${name}, which is to prove that the list is complete`);
}
