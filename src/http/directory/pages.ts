import type { Answer } from "#http/client.ts";
import type { DirectoryApi } from "./api.ts";
import { Seen } from "./seen.ts";

/** A part of a list. */
export interface Page<Item> {
  readonly items: readonly Item[];
  /** Where the next one is, by link or cursor. Absent or empty: the service says that this is the last. */
  readonly next?: string | undefined;
  /** How many there are altogether, if the answer says so. */
  readonly total?: number | undefined;
  /** Instead of items: why the list must be read from its start again. The service has forgotten the link, say. */
  readonly lost?: string | undefined;
}

/** How a list is divided. */
export type Paging =
  /** Not at all: one answer holds everything. */
  | { readonly by: "none" }
  /** A page has the URL of the next one. `size`: how many were asked for. */
  | { readonly by: "link"; readonly size?: number | undefined }
  /** A page has a text to send as `parameter` for the next one. */
  | { readonly by: "cursor"; readonly parameter: string; readonly size?: number | undefined }
  /**
   * `parameter` says how many to skip (`start`: the first one's, default 0), or is the number of the page (default 1). An empty
   * page is the end.
   */
  | {
      readonly by: "offset" | "page";
      readonly parameter: string;
      readonly start?: number | undefined;
      readonly size?: number | undefined;
    };

/** A list as its pages are asked for. */
export interface PagedList<Item> {
  /** The first page, with the parameters that all pages have. */
  readonly url: URL;
  readonly paging: Paging;
  /**
   * Asks for a page. A first page must have the field that paging needs, wherever the service always sends it: what lacks
   * it is another kind of answer, and not the end. An answer that is not divided may come in pieces, the last of which
   * says what it is part of.
   */
  readonly get: (url: URL, isFirst: boolean) => Promise<Page<Item>> | AsyncIterable<Page<Item>>;
}

/** After so many pages without anything, the service is going in circles. */
const mostIdle = 100;

/**
 * The pages of a list, in order, up to the one that the service says is the last. That is not yet a proof that nothing is
 * missing. An empty page with a link is not the end; a full page without one is asked for again.
 * @returns why there is no end; undefined: it has been reached
 * @throws what `get` throws; {IncompleteReadError} a link leads to another server
 */
export async function* pagesOf<Item>(
  api: DirectoryApi,
  { url, paging, get }: PagedList<Item>,
): AsyncGenerator<Page<Item>, string | undefined> {
  const places = new Seen();
  let place = at(url, paging);
  let skipped = 0;
  let idle = 0;
  for (let isFirst = true; ; isFirst = false) {
    if (!places.add(place.href)) return "a page leads to one that came before: the service goes in circles";
    const asked = get(place, isFirst);
    if (Symbol.asyncIterator in asked) {
      yield* asked;
      return undefined;
    }
    let page = await asked;
    if (page.lost !== undefined) return page.lost;
    if (isFull(page, paging)) page = await again(api, page, async () => (await get(place, isFirst)) as Page<Item>);
    yield page;
    skipped += page.items.length;
    idle = page.items.length === 0 ? idle + 1 : 0;
    if (idle > mostIdle) return `${mostIdle} pages in a row are empty`;
    const next = nextOf(api, page, { place, url, paging, skipped });
    if (next === undefined) return undefined;
    place = next;
  }
}

/** The first page. */
function at(url: URL, paging: Paging): URL {
  const first = new URL(url);
  if (paging.by === "offset") first.searchParams.set(paging.parameter, `${paging.start ?? 0}`);
  if (paging.by === "page") first.searchParams.set(paging.parameter, `${paging.start ?? 1}`);
  return first;
}

interface Place {
  /** The URL of the page. */
  readonly place: URL;
  /** The URL of the list. */
  readonly url: URL;
  readonly paging: Paging;
  /** How many items there were up to now. */
  readonly skipped: number;
}

function nextOf(api: DirectoryApi, page: Page<unknown>, { place, url, paging, skipped }: Place): URL | undefined {
  const next = page.next === "" ? undefined : page.next;
  if (paging.by === "none") return undefined;
  if (paging.by === "link") return next === undefined ? undefined : api.follow(next, place);
  const following = new URL(url);
  if (paging.by === "cursor") {
    if (next === undefined) return undefined;
    following.searchParams.set(paging.parameter, next);
  } else {
    if (page.items.length === 0) return undefined;
    // What came counts, not what was asked for: a service may send fewer.
    const number =
      paging.by === "offset" ? (paging.start ?? 0) + skipped : Number(place.searchParams.get(paging.parameter)) + 1;
    following.searchParams.set(paging.parameter, `${number}`);
  }
  return following;
}

function isFull({ items, next }: Page<unknown>, paging: Paging): boolean {
  const size = paging.by === "link" || paging.by === "cursor" ? paging.size : undefined;
  return size !== undefined && items.length >= size && (next === undefined || next === "");
}

/** Services have been seen to forget the link to the next page. */
async function again<Item>(api: DirectoryApi, page: Page<Item>, get: () => Promise<Page<Item>>): Promise<Page<Item>> {
  const second = await get();
  if (second.next === undefined || second.next === "") return page;
  api.warn(`${api.subject}: a full page had no link to the next one, and has one now that it was asked for again`);
  return second;
}

/** The target of the first link to the next page in the `Link` headers (RFC 8288), as written. */
export function linkIn(headers: Answer["headers"]): string | undefined {
  const text = [headers["link"] ?? []].flat().join(", ");
  for (const [, target = "", parameters = ""] of text.matchAll(
    /<([^>]*)>((?:\s*;\s*[^\s;,=]+(?:=(?:"[^"]*"|[^\s;,"]*))?)*)/g,
  )) {
    const [, quoted, plain] = /;\s*rel=(?:"([^"]*)"|([^\s;,"]*))/i.exec(parameters) ?? [];
    if ((quoted ?? plain ?? "").toLowerCase().split(/\s+/).includes("next")) return target;
  }
  return undefined;
}

/**
 * Works on several at a time, and gives the results in order.
 * @param width how many; each may hold its result until its turn comes
 */
export async function* inParallel<In, Out>(
  inputs: Iterable<In> | AsyncIterable<In>,
  width: number,
  work: (input: In) => Promise<Out>,
): AsyncGenerator<Out> {
  const running: Promise<Out>[] = [];
  for await (const input of inputs) {
    const result = work(input);
    // One that fails while another's turn is awaited is told in its own turn, or not at all.
    result.catch(() => undefined);
    running.push(result);
    const first = running.length < width ? undefined : running.shift();
    if (first !== undefined) yield await first;
  }
  for (const result of running) yield await result;
}

/**
 * Reads several streams at a time, in whatever order they come. Holds no more than one piece of each, however long they
 * are.
 * @param width how many
 */
export async function* merged<In, Out>(
  inputs: Iterable<In> | AsyncIterable<In>,
  width: number,
  open: (input: In) => AsyncIterable<Out>,
): AsyncGenerator<Out> {
  type Step = { readonly stream: AsyncIterator<Out>; readonly result: IteratorResult<Out> };
  const running = new Map<AsyncIterator<Out>, Promise<Step>>();
  const advance = (stream: AsyncIterator<Out>): void => {
    const step = stream.next().then((result) => ({ stream, result }));
    // Another one may fail first.
    step.catch(() => undefined);
    running.set(stream, step);
  };
  async function* finished(): AsyncGenerator<Out> {
    const { stream, result } = await Promise.race(running.values());
    if (result.done === true) {
      running.delete(stream);
      return;
    }
    advance(stream);
    yield result.value;
  }
  try {
    for await (const input of inputs) {
      advance(open(input)[Symbol.asyncIterator]());
      while (running.size >= width) yield* finished();
    }
    while (running.size > 0) yield* finished();
  } finally {
    for (const stream of running.keys()) void stream.return?.();
  }
}
