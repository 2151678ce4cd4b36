import { InputError, UnavailableError } from "#errors.ts";
import { createQueue } from "#queue.ts";
import type { Answer, Worker } from "#service/worker/worker.ts";
import type { VisualizationHeader } from "#wire/pinboards.ts";
import type { DataRequest, Paging } from "./request.ts";

export interface PinboardOptions {
  readonly worker: Pick<Worker, "query">;
  /** Reads all pinboards, at the start and at every `reload`. */
  readonly read: () => Promise<readonly Pinboard[]>;
  /** How long a query may run, in milliseconds. */
  readonly timeout: number;
  /** The most rows that a visualization returns at a time (B.13). */
  readonly maxRows: number;
}

export class Pinboards {
  readonly #options: PinboardOptions;
  /** By their ids in lower case. */
  #pinboards: ReadonlyMap<string, Pinboard>;
  readonly #reading = createQueue();
  readonly #flights = new Flights<Answer>((answer) => {
    answer.release();
  });

  /** Reads the pinboards. @throws {InputError} with every problem of theirs */
  static async open(options: PinboardOptions): Promise<Pinboards> {
    return new Pinboards(options, byId(await options.read()));
  }

  private constructor(options: PinboardOptions, pinboards: ReadonlyMap<string, Pinboard>) {
    this.#options = options;
    this.#pinboards = pinboards;
  }

  /** All pinboards, by name. */
  list(): readonly Pinboard[] {
    return [...this.#pinboards.values()].sort((a, b) => a.name.localeCompare(b.name, "en"));
  }

  /**
   * The answer of `pinboarddata` (specification 4.2, B.11 to B.13). The queries run side by side; the first that fails
   * stops the others.
   * @param account who asks: an account does not hold all slots of queries
   * @throws {InputError} unknown ids, or what is wrong with the SQL; {UnavailableError} when a query took too much
   *   time or memory, or there is no room for its result
   */
  async data(request: DataRequest, signal: AbortSignal, account?: string): Promise<PinboardData> {
    const chosen = choose(this.#find(request.pinboard), request.visualizations);
    const failed = new AbortController();
    const either = AbortSignal.any([signal, failed.signal]);
    const queries = chosen.map((visualization) => this.#query(visualization, request, either, account));
    try {
      return new PinboardData(chosen, await Promise.all(queries), request.paging);
    } catch (error) {
      failed.abort(error);
      for (const settled of await Promise.allSettled(queries)) {
        if (settled.status === "fulfilled") settled.value.leave();
      }
      throw error;
    }
  }

  /**
   * The answer of `listvizheaders` (B.14).
   * @param administrator the GUID of whom a pinboard is by that does not say
   * @throws {InputError} an unknown id
   */
  headers(pinboard: string, administrator: string): VisualizationHeader[] {
    const { id: owner, author = administrator, created, modified, visualizations } = this.#find(pinboard);
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
  }

  /**
   * Reads all pinboards again. Running queries go on.
   * @returns how many there are
   * @throws {InputError} with every problem; then the pinboards stay as they were
   */
  async reload(): Promise<number> {
    // One after the other: the last to be asked for is the last to arrive.
    this.#pinboards = await this.#reading(async () => byId(await this.#options.read()));
    return this.#pinboards.size;
  }

  #find(id: string): Pinboard {
    const pinboard = this.#pinboards.get(id);
    if (pinboard === undefined) throw new InputError("id: there is no pinboard with this id");
    return pinboard;
  }

  async #query(
    { database, sql, name }: Visualization,
    { format, paging }: DataRequest,
    signal: AbortSignal,
    account: string | undefined,
  ): Promise<Shared<Answer>> {
    const { worker, timeout, maxRows } = this.#options;
    const page = { offset: paging.offset ?? 0, limit: Math.min(paging.size ?? maxRows, maxRows) };
    try {
      const key = JSON.stringify([database, sql, page, format]);
      return await this.#flights.join(key, signal, async (stop, begins) =>
        worker.query({ database, sql, timeout, ...page }, format, stop, { account, begins }),
      );
    } catch (cause) {
      if (cause instanceof InputError) throw new InputError(`visualization ${name}: ${cause.message}`, { cause });
      if (cause instanceof UnavailableError && !signal.aborted) {
        throw new UnavailableError(`visualization ${name}: ${cause.message}`, { cause });
      }
      throw cause;
    }
  }
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

/** The results of a pinboard, of which those of large queries are files until they are released. */
export class PinboardData {
  /** In bytes, about. */
  readonly size: number;
  readonly #visualizations: readonly Visualization[];
  readonly #answers: readonly Shared<Answer>[];
  readonly #paging: Paging;

  /** @param answers those of the visualizations, in their order */
  constructor(visualizations: readonly Visualization[], answers: readonly Shared<Answer>[], paging: Paging) {
    this.size = answers.reduce((sum, { result }) => sum + result.size, 0);
    this.#visualizations = visualizations;
    this.#answers = answers;
    this.#paging = paging;
  }

  /** JSON in pieces. */
  async *read(): AsyncGenerator<Buffer> {
    const { size: pageSize = -1, offset = -1 } = this.#paging;
    let before = "{";
    for (const [index, { id, name }] of this.#visualizations.entries()) {
      const answer = this.#answers[index]?.result;
      if (answer === undefined) continue;
      const { columnNames, totalRowCount, rowCount } = answer;
      const start = JSON.stringify({ name, columnNames }).slice(0, -1);
      yield Buffer.from(`${before}${JSON.stringify(id)}:${start},"data":[`);
      yield* answer.read();
      const end = JSON.stringify({ samplingRatio: 1, totalRowCount, rowCount, pageSize, offset }).slice(1);
      before = `],${end},`;
    }
    yield Buffer.from(before === "{" ? "{}" : `${before.slice(0, -1)}}`);
  }

  release(): void {
    for (const { leave } of this.#answers) leave();
  }
}

/** A result that several callers have. */
export interface Shared<Result> {
  readonly result: Result;
  /** The caller needs it no more. To be called once. */
  readonly leave: () => void;
}

interface Flight<Result> {
  readonly result: Promise<Result>;
  readonly stop: AbortController;
  /** How many callers wait for the result or have it. */
  callers: number;
}

/** The work of a flight. It calls `begins`, not at once, before it looks at anything that may change. */
type Work<Result> = (signal: AbortSignal, begins: () => void) => Promise<Result>;

/**
 * Callers with the same key that wait for its work to begin share the result. A call after that begins anew: it must not get
 * what was so before it.
 */
export class Flights<Result> {
  readonly #drop: (result: Result) => void;
  readonly #byKey = new Map<string, Flight<Result>>();

  /** @param drop is called with every result that nobody needs any more */
  constructor(drop: (result: Result) => void) {
    this.#drop = drop;
  }

  /**
   * The result of the waiting work with this key, which is started when there is none. An aborted caller leaves without
   * disturbing the others. When all have left, the work is stopped, or its result is dropped.
   * @throws the signal's reason, or what the work throws
   */
  async join(key: string, signal: AbortSignal, work: Work<Result>): Promise<Shared<Result>> {
    signal.throwIfAborted();
    const flight = this.#byKey.get(key) ?? this.#begin(key, work);
    flight.callers += 1;
    const leave = (): void => {
      flight.callers -= 1;
      if (flight.callers > 0) return;
      this.#remove(key, flight);
      flight.stop.abort(signal.reason);
      flight.result.then(this.#drop, () => undefined);
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
  }

  #begin(key: string, work: Work<Result>): Flight<Result> {
    const stop = new AbortController();
    const close = (): void => {
      this.#remove(key, flight);
    };
    const flight: Flight<Result> = { result: work(stop.signal, close), stop, callers: 0 };
    this.#byKey.set(key, flight);
    flight.result.then(close, close);
    return flight;
  }

  /** No caller can join it from now on. */
  #remove(key: string, flight: Flight<Result>): void {
    if (this.#byKey.get(key) === flight) this.#byKey.delete(key);
  }
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
