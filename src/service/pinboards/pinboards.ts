import { InputError, UnavailableError } from "#errors.ts";
import { createQueue } from "#queue.ts";
import type { Answer, Worker } from "#service/worker/worker.ts";
import type { VisualizationHeader } from "#wire/pinboards.ts";
import type { DataRequest } from "./request.ts";

export interface PinboardOptions {
  readonly worker: Pick<Worker, "query" | "revision">;
  /** Reads all pinboards, at the start and at every `reload`. */
  readonly read: () => Promise<readonly Pinboard[]>;
  /** How long a query may run, in milliseconds. */
  readonly timeout: number;
  /** The most rows that a visualization returns at a time (B.13). */
  readonly maxRows: number;
}

export interface Pinboards {
  /** All pinboards, by name. */
  list(): readonly Pinboard[];
  /**
   * The answer of `pinboarddata` (specification 4.2, B.11 to B.13). The queries run side by side; the first that fails
   * stops the others.
   * @param account who asks: an account does not hold all slots of queries
   * @throws {InputError} unknown ids, or what is wrong with the SQL; {UnavailableError} when a query took too much
   *   time or memory, or there is no room for its result
   */
  data(request: DataRequest, signal: AbortSignal, account?: string): Promise<PinboardData>;
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
}

/** The results of a pinboard, of which those of large queries are files until they are released. */
export interface PinboardData {
  /** In bytes, about. */
  readonly size: number;
  /** JSON in pieces. */
  read(): AsyncIterable<Buffer>;
  release(): void;
}

/** Reads the pinboards. @throws {InputError} with every problem of theirs */
export async function openPinboards({ worker, read, timeout, maxRows }: PinboardOptions): Promise<Pinboards> {
  let pinboards = byId(await read());
  const reading = createQueue();
  const flights = createFlights<Answer>((answer) => {
    answer.release();
  });

  const find = (id: string): Pinboard => {
    const pinboard = pinboards.get(id);
    if (pinboard === undefined) throw new InputError("id: there is no pinboard with this id");
    return pinboard;
  };

  const query = async (
    { database, sql, name }: Visualization,
    { format, paging }: DataRequest,
    signal: AbortSignal,
    account: string | undefined,
  ): Promise<Shared<Answer>> => {
    const page = { offset: paging.offset ?? 0, limit: Math.min(paging.size ?? maxRows, maxRows) };
    try {
      // A request after a change must not get the result from before it.
      const key = JSON.stringify([await worker.revision(), database, sql, page, format]);
      return await flights.join(key, signal, async (stop) =>
        worker.query({ database, sql, timeout, ...page }, format, stop, account),
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
    list: () => [...pinboards.values()].sort((a, b) => a.name.localeCompare(b.name, "en")),
    data: async (request, signal, account) => {
      const chosen = choose(find(request.pinboard), request.visualizations);
      const failed = new AbortController();
      const either = AbortSignal.any([signal, failed.signal]);
      const queries = chosen.map((visualization) => query(visualization, request, either, account));
      try {
        const answers = await Promise.all(queries);
        return dataOf(chosen, answers, request);
      } catch (error) {
        failed.abort(error);
        for (const settled of await Promise.allSettled(queries)) {
          if (settled.status === "fulfilled") settled.value.leave();
        }
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

function dataOf(
  visualizations: readonly Visualization[],
  answers: readonly Shared<Answer>[],
  request: DataRequest,
): PinboardData {
  return {
    size: answers.reduce((sum, { result }) => sum + result.size, 0),
    read: () =>
      write(
        visualizations,
        answers.map(({ result }) => result),
        request,
      ),
    release: () => {
      for (const { leave } of answers) leave();
    },
  };
}

async function* write(
  visualizations: readonly Visualization[],
  answers: readonly Answer[],
  { paging }: DataRequest,
): AsyncGenerator<Buffer> {
  let before = "{";
  for (const [index, { id, name }] of visualizations.entries()) {
    const answer = answers[index];
    if (answer === undefined) continue;
    const { columnNames, totalRowCount, rowCount } = answer;
    const start = JSON.stringify({ name, columnNames }).slice(0, -1);
    yield Buffer.from(`${before}${JSON.stringify(id)}:${start},"data":[`);
    yield* answer.read();
    const end = JSON.stringify({
      samplingRatio: 1,
      totalRowCount,
      rowCount,
      pageSize: paging.size ?? -1,
      offset: paging.offset ?? -1,
    }).slice(1);
    before = `],${end},`;
  }
  yield Buffer.from(before === "{" ? "{}" : `${before.slice(0, -1)}}`);
}

/** A result that several callers have. */
export interface Shared<Result> {
  readonly result: Result;
  /** The caller needs it no more. To be called once. */
  leave(): void;
}

/** Runs work with the same key only once at a time; all callers share its result. */
export interface Flights<Result> {
  /**
   * The result of the running work with this key, which is started when there is none. An aborted caller leaves without
   * disturbing the others. When all have left, the work is stopped, or its result is dropped.
   * @throws the signal's reason, or what the work throws
   */
  join(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<Result>): Promise<Shared<Result>>;
}

interface Flight<Result> {
  readonly result: Promise<Result>;
  readonly stop: AbortController;
  /** How many callers wait for the result or have it. */
  callers: number;
}

/** @param drop is called with every result that nobody needs any more */
export function createFlights<Result>(drop: (result: Result) => void): Flights<Result> {
  const byKey = new Map<string, Flight<Result>>();

  const begin = (key: string, work: (signal: AbortSignal) => Promise<Result>): Flight<Result> => {
    const stop = new AbortController();
    const flight: Flight<Result> = { result: work(stop.signal), stop, callers: 0 };
    byKey.set(key, flight);
    const land = (): void => {
      remove(key, flight);
    };
    flight.result.then(land, land);
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
      flight.callers += 1;
      const leave = (): void => {
        flight.callers -= 1;
        if (flight.callers > 0) return;
        remove(key, flight);
        flight.stop.abort(signal.reason);
        flight.result.then(drop, () => undefined);
      };
      const gone = Promise.withResolvers<never>();
      const goAway = (): void => {
        gone.reject(signal.reason);
      };
      signal.addEventListener("abort", goAway, { once: true });
      try {
        return { result: await Promise.race([flight.result, gone.promise]), leave };
      } catch (error) {
        leave();
        throw error;
      } finally {
        signal.removeEventListener("abort", goAway);
      }
    },
  };
}

/** A pinboard: named queries whose results are shown together. */
export interface Pinboard {
  readonly id: string;
  readonly name: string;
  readonly description?: string | undefined;
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
  /** How a chart of it is drawn. The interface does not tell. */
  readonly chart?: ChartOptions | undefined;
}

/** What is left out is guessed from the columns. */
export interface ChartOptions {
  readonly mark?: "bar" | "line" | "area" | "dot" | undefined;
  /** Names of columns. */
  readonly x?: string | undefined;
  readonly y?: string | undefined;
  readonly series?: string | undefined;
}
