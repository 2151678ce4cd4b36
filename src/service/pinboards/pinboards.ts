import { InputError, UnavailableError } from "#errors.ts";
import { createQueue } from "#queue.ts";
import type { Engine } from "#service/engine/engine.ts";
import type { VisualizationHeader } from "#wire/pinboards.ts";
import { encodePage } from "./request.ts";
import type { DataRequest, EncodedPage } from "./request.ts";

export interface PinboardOptions {
  readonly engine: Pick<Engine, "query" | "revision">;
  /** Reads all pinboards, at the start and at every `reload`. */
  readonly read: () => Promise<readonly Pinboard[]>;
  /** How long a query may run, in milliseconds. */
  readonly timeout: number;
  /** The most rows that a visualization returns at a time (B.13). */
  readonly maxRows: number;
}

export interface Pinboards {
  /**
   * The answer of `pinboarddata` (specification 4.2, B.11 to B.13): JSON in pieces. The queries run side by side; the
   * first that fails stops the others.
   * @throws {InputError} unknown ids, or what is wrong with the SQL; {UnavailableError} when a query's time is up
   */
  data(request: DataRequest, signal: AbortSignal): Promise<readonly Buffer[]>;
  /**
   * The answer of `listvizheaders` (B.14).
   * @param administrator the GUID of whom a pinboard is by that does not say
   * @throws {InputError} an unknown id
   */
  headers(pinboard: string, administrator: string): VisualizationHeader[];
  /**
   * Reads all pinboards again. Running queries go on.
   * @returns how many there are
   * @throws {InputError} with every problem; then the pinboards stay as they were
   */
  reload(): Promise<number>;
  /** Resolves when no query is running any more. */
  settled(): Promise<void>;
}

/** Reads the pinboards. @throws {InputError} with every problem of theirs */
export async function openPinboards({ engine, read, timeout, maxRows }: PinboardOptions): Promise<Pinboards> {
  let pinboards = byId(await read());
  const reading = createQueue();
  const flights = createFlights<EncodedPage>();

  const find = (id: string): Pinboard => {
    const pinboard = pinboards.get(id);
    if (pinboard === undefined) throw new InputError("id: there is no pinboard with this id");
    return pinboard;
  };

  const query = async (
    { database, sql, name }: Visualization,
    { format, paging }: DataRequest,
    signal: AbortSignal,
  ): Promise<EncodedPage> => {
    const page = { offset: paging.offset ?? 0, limit: Math.min(paging.size ?? maxRows, maxRows) };
    // A request after a change must not get the result from before it.
    const key = JSON.stringify([engine.revision(), database, sql, page, format]);
    try {
      return await flights.join(key, signal, async (stop) =>
        encodePage(await engine.query({ database, sql, timeout, ...page }, stop), format),
      );
    } catch (cause) {
      if (cause instanceof InputError) throw new InputError(`visualization ${name}: ${cause.message}`, { cause });
      if (cause instanceof UnavailableError && !signal.aborted) {
        throw new UnavailableError(`visualization ${name}: ${cause.message}`, { cause });
      }
      throw cause;
    }
  };

  return {
    data: async (request, signal) => {
      const chosen = choose(find(request.pinboard), request.visualizations);
      const failed = new AbortController();
      const either = AbortSignal.any([signal, failed.signal]);
      try {
        const pages = await Promise.all(chosen.map((visualization) => query(visualization, request, either)));
        return write(chosen, pages, request);
      } catch (error) {
        failed.abort(error);
        throw error;
      }
    },
    headers: (id, administrator) => {
      const { id: owner, author = administrator, created, modified, visualizations } = find(id);
      return visualizations.map(({ id, name, type, title }) => ({
        id,
        name,
        author,
        created,
        modified,
        modifiedBy: author,
        owner,
        vizType: type,
        title: { value: { text: title } },
      }));
    },
    reload: async () => {
      // One after the other: the last to be asked for is the last to arrive.
      pinboards = await reading(async () => byId(await read()));
      return pinboards.size;
    },
    settled: flights.settled,
  };
}

function byId(pinboards: readonly Pinboard[]): ReadonlyMap<string, Pinboard> {
  return new Map(pinboards.map((pinboard) => [pinboard.id.toLowerCase(), pinboard]));
}

/** The visualizations asked for, in the pinboard's order; all when none is (B.12). */
function choose({ visualizations }: Pinboard, ids: readonly string[]): readonly Visualization[] {
  if (ids.length === 0) return visualizations;
  const there = new Set(visualizations.map(({ id }) => id.toLowerCase()));
  const unknown = ids.filter((id) => !there.has(id));
  if (unknown.length > 0) {
    throw new InputError("There are no such visualizations.", {
      problems: unknown.map((id) => `vizid: ${id} is not on this pinboard`),
    });
  }
  return visualizations.filter(({ id }) => ids.includes(id.toLowerCase()));
}

/** The answer in pieces, of which those of the rows may be shared with other answers. */
function write(
  visualizations: readonly Visualization[],
  pages: readonly EncodedPage[],
  { paging }: DataRequest,
): Buffer[] {
  const pieces = visualizations.flatMap(({ id, name }, index) => {
    const page = pages[index];
    if (page === undefined) return [];
    const { columnNames, rows, totalRowCount, rowCount } = page;
    const before = JSON.stringify({ name, columnNames }).slice(0, -1);
    const after = JSON.stringify({
      samplingRatio: 1,
      totalRowCount,
      rowCount,
      pageSize: paging.size ?? -1,
      offset: paging.offset ?? -1,
    }).slice(1);
    const opening = `${index === 0 ? "{" : ","}${JSON.stringify(id)}:${before},"data":[`;
    return [Buffer.from(opening), ...rows, Buffer.from(`],${after}`)];
  });
  return pieces.length === 0 ? [Buffer.from("{}")] : [...pieces, Buffer.from("}")];
}

/** Runs work with the same key only once at a time; all callers share its result. */
export interface Flights<Result> {
  /**
   * The result of the running work with this key, which is started when there is none. An aborted caller leaves without
   * disturbing the others; the work is stopped when nobody waits for it any more.
   * @throws the signal's reason, or what the work throws
   */
  join(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<Result>): Promise<Result>;
  /** Resolves when nothing is running, not even what was told to stop. */
  settled(): Promise<void>;
}

interface Flight<Result> {
  readonly result: Promise<Result>;
  readonly stop: AbortController;
  waiting: number;
}

export function createFlights<Result>(): Flights<Result> {
  const byKey = new Map<string, Flight<Result>>();
  const underWay = new Set<Promise<unknown>>();

  const begin = (key: string, work: (signal: AbortSignal) => Promise<Result>): Flight<Result> => {
    const stop = new AbortController();
    const flight: Flight<Result> = { result: work(stop.signal), stop, waiting: 0 };
    byKey.set(key, flight);
    const landed = Promise.allSettled([flight.result]).finally(() => {
      underWay.delete(landed);
      remove(key, flight);
    });
    underWay.add(landed);
    return flight;
  };

  /** No caller can join it from now on. */
  const remove = (key: string, flight: Flight<Result>): void => {
    if (byKey.get(key) === flight) byKey.delete(key);
  };

  return {
    join: async (key, signal, work) => {
      signal.throwIfAborted();
      const flight = byKey.get(key) ?? begin(key, work);
      flight.waiting += 1;
      const leaving = Promise.withResolvers<never>();
      const leave = (): void => {
        leaving.reject(signal.reason);
      };
      signal.addEventListener("abort", leave, { once: true });
      try {
        return await Promise.race([flight.result, leaving.promise]);
      } finally {
        signal.removeEventListener("abort", leave);
        flight.waiting -= 1;
        if (flight.waiting === 0) {
          remove(key, flight);
          flight.stop.abort(signal.reason);
        }
      }
    },
    settled: async () => {
      await Promise.all(underWay);
    },
  };
}

/** A pinboard: named queries whose results are shown together. */
export interface Pinboard {
  readonly id: string;
  readonly name: string;
  /** The GUID of whom it is by; absent: the administrator's. */
  readonly author?: string;
  /** In epoch milliseconds, as `modified`. */
  readonly created: number;
  readonly modified: number;
  readonly visualizations: readonly Visualization[];
}

export interface Visualization {
  readonly id: string;
  readonly name: string;
  readonly title: string;
  readonly type: "TABLE" | "CHART" | "HEADLINE";
  /** The database its SQL runs in, and does not leave. */
  readonly database: string;
  readonly sql: string;
}
