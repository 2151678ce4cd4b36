import { randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "pino";
import { messageOf, UnavailableError } from "#errors.ts";
import { emptyFolder, removeFile } from "#files/disk.ts";
import { createKeyedQueue, createQueue } from "#queue.ts";
import { defaultSchema, longestTimer, queriesOf, tookTooLong } from "#service/engine/engine.ts";
import type { ListedTable, Query, Table, TableName } from "#service/engine/engine.ts";
import { isOutOfMemory } from "#duckdb/database.ts";
import { databasesEnded, outOfMemory } from "#service/loads/capacity.ts";
import type { LoadJob } from "#service/loads/commit.ts";
import type { Outcome } from "#service/loads/cycle.ts";
import type { Preview, PreviewJob } from "#service/loads/preview.ts";
import type { ServiceSettings } from "#service/options.ts";
import { definedTables } from "#service/engine/statements.ts";
import type { Format } from "#service/pinboards/rows.ts";
import type { Results, TableDefinitions, Task, WorkerSettings, WrittenRows } from "./messages.ts";
import { LostError, WorkerProcess } from "./process.ts";
import type { RunOptions } from "./process.ts";
import { AnswerRoom } from "./room.ts";

export interface WorkerOptions extends Omit<WorkerSettings, "engine" | "hasFailed"> {
  /** Absent: `duckdb`. */
  readonly engine?: ServiceSettings["engine"] | undefined;
  /** The folder for answers that are being sent. It is emptied. */
  readonly answers: string;
  /** Opens the databases for the first task only, which fails where they cannot be opened. */
  readonly whenUsed?: boolean | undefined;
  readonly log: Logger;
  /** How long the process stays without work, in milliseconds. Default: a minute. */
  readonly idle?: number | undefined;
}

/** The rows of a result, in memory if they are few, otherwise in a file. */
export interface Answer extends Omit<WrittenRows, "text"> {
  /** The rows as JSON, with commas between them and without the brackets around them. */
  read(): AsyncIterable<Buffer>;
  release(): void;
}

/** How long a query whose time is up may take to stop, in milliseconds. An SQL statement may have to undo its work. */
const stopTime = { query: 1_000, execute: 10_000 };

/** How long SQL waits until other answers have been sent, in milliseconds. */
const longestWait = 60_000;

/** How often a task is begun again after the process was lost: with queries to blame, and otherwise. */
const attempts = { innocent: 20, suspect: 2 };

/** How long files that are being copied stay fit for that after the last request, in milliseconds. */
const holdTime = 20_000;

/** For how long a query that ended the process is refused, in milliseconds: each time twice as long. */
const pauses = { first: 30_000, longest: 15 * 60_000 };

/** What the process may hold apart from DuckDB's buffers: Node, and what DuckDB does not count. */
function processLimit(memory: number): number {
  return Math.round(memory * 1.5) + 512 * 2 ** 20;
}

/** The databases, in a process of their own: what takes too much memory or time ends that process, not the service. */
export class Worker {
  readonly #answers: string;
  readonly #memory: number;
  readonly #process: WorkerProcess;
  readonly #room: AnswerRoom;
  readonly #queries: ReturnType<typeof createQueue>;
  /** Whatever one account asks for, others find a slot. */
  readonly #ofAccount: ReturnType<typeof createKeyedQueue>;
  readonly #paused = new Map<string, { readonly time: number; readonly until: number }>();
  #held: NodeJS.Timeout | undefined;

  private constructor({
    engine = "duckdb",
    folder,
    answers,
    memory,
    files,
    tables,
    log,
    idle = 60_000,
  }: WorkerOptions) {
    this.#answers = answers;
    this.#memory = memory;
    this.#process = new WorkerProcess({
      settings: { engine, folder, memory, files, tables },
      limit: processLimit(memory),
      idle,
      onLost: ({ message, reason }) => {
        log.error({ reason }, message);
      },
    });
    this.#room = new AnswerRoom(memory);
    const width = queriesOf(engine === "duckdb" ? undefined : engine.poolSize);
    this.#queries = createQueue(width);
    this.#ofAccount = createKeyedQueue(Math.max(1, width - 1));
  }

  /**
   * Opens the databases of a folder, or in PostgreSQL, and creates the tables. Their process is started when something needs it.
   * @throws {InputError} naming a file that cannot be opened; {UnavailableError} when PostgreSQL does not answer
   */
  static async open(options: WorkerOptions): Promise<Worker> {
    const worker = new Worker(options);
    // A file that cannot be opened, or a server that refuses, is reported at the start. The process takes longest to start:
    // it is first.
    const { engine = "duckdb", folder, answers, tables, whenUsed = false } = options;
    const isUsed = !whenUsed && (engine !== "duckdb" || tables !== undefined || (await hasFiles(folder)));
    const name = { database: "", schema: "", table: "" };
    await Promise.all([isUsed ? worker.#repeated({ kind: "find", name }) : undefined, emptyFolder(answers)]);
    if (isUsed && tables !== undefined) await worker.#compare(tables, options.log);
    return worker;
  }

  /** Says which columns a definition has and its table has not: it was made before they were added to the definition. */
  async #compare({ sql, origin }: TableDefinitions, log: Logger): Promise<void> {
    for (const { parts, columns, line } of definedTables(sql)) {
      const [database = "", schema = defaultSchema] = parts.slice(0, -1);
      const found = await this.find({ database, schema, table: parts.at(-1) ?? "" }).catch(() => undefined);
      const there = new Set(found?.columns.map(({ name }) => name.toLowerCase()));
      const missing = columns.filter((name) => !there.has(name.toLowerCase()));
      if (found === undefined || missing.length === 0) continue;
      log.warn(
        `${origin}:${line}: the table ${parts.join(".")} exists without ${missing.join(", ")}, and a definition changes no ` +
          "table; add what is missing with `rollcall sql`: ALTER TABLE … ADD COLUMN …",
      );
    }
  }

  /** As `Engine.find`. */
  find(name: TableName): Promise<Table | undefined> {
    return this.#repeated({ kind: "find", name });
  }

  /** As `Engine.list`. */
  tables(): Promise<readonly ListedTable[]> {
    return this.#repeated({ kind: "tables" });
  }

  /** The first rows of a file as a load would read them. @throws {InputError} when it cannot be read like this */
  preview(job: PreviewJob, signal: AbortSignal): Promise<Preview> {
    return this.#repeated({ kind: "preview", job }, signal);
  }

  /** Loads a committed cycle. It begins again when the process ends meanwhile: a load is written once (A.24). */
  async load(job: LoadJob, signal: AbortSignal): Promise<Outcome> {
    try {
      return await this.#repeated({ kind: "load", job }, signal);
    } catch (error) {
      if (!(error instanceof LostError)) throw error;
      if (error.reason === "memory") throw outOfMemory(error);
      throw error.reason === "crash" ? databasesEnded(error) : error;
    }
  }

  /** As `Engine.execute`. The answer has to be released. @throws {UnavailableError} when it took too much memory */
  async execute(database: string | undefined, sql: string, signal: AbortSignal): Promise<Answer> {
    const task = { kind: "execute", database, sql, file: join(this.#answers, randomUUID()) } as const;
    try {
      return await this.#answer(task, signal, longestWait, { atMostAborted: stopTime.execute });
    } catch (error) {
      if (isOutOfMemory(error)) throw this.#lackOfMemory(error);
      throw error instanceof LostError ? this.#explain(task, error) : error;
    }
  }

  /**
   * As `Engine.query`. The answer has to be released.
   * @param account whose query it is: an account does not hold all slots
   * @param begins is called when its turn has come, before it reads anything
   * @throws {UnavailableError} when it took too much memory or time
   */
  query(
    query: Query,
    format: Format,
    signal: AbortSignal,
    { account, begins }: { readonly account?: string | undefined; readonly begins?: () => void } = {},
  ): Promise<Answer> {
    const run = (): Promise<Answer> => {
      begins?.();
      return this.#query(query, format, signal);
    };
    const inTurn = (): Promise<Answer> => this.#queries(run, signal);
    return account === undefined ? inTurn() : this.#ofAccount(account, inTurn, signal);
  }

  /** After a database could not be written to: why that is so still, for a person. */
  problem(): Promise<string | undefined> {
    return this.#process.problem();
  }

  /**
   * Makes the files of the databases fit to be copied, until `release` or for 20 seconds: call it again meanwhile. Loads and
   * SQL go on.
   */
  async hold(): Promise<void> {
    await this.#repeated({ kind: "checkpoints", isHeld: true });
    clearTimeout(this.#held);
    this.#held = setTimeout(() => void this.release().catch(() => undefined), holdTime).unref();
  }

  async release(): Promise<void> {
    clearTimeout(this.#held);
    await this.#repeated({ kind: "checkpoints", isHeld: false });
  }

  /** Stops what is still under way. */
  close(): Promise<void> {
    clearTimeout(this.#held);
    return this.#process.close();
  }

  async #query(query: Query, format: Format, signal: AbortSignal): Promise<Answer> {
    this.#checkPause(query.sql);
    for (let attempt = 1; ; attempt++) {
      const task = { kind: "query", query, format, file: join(this.#answers, randomUUID()) } as const;
      try {
        const limits = { atMost: query.timeout + stopTime.query };
        const result = await this.#answer(task, signal, query.timeout, limits);
        this.#paused.delete(query.sql);
        return result;
      } catch (error) {
        if (isOutOfMemory(error)) throw this.#lackOfMemory(error);
        if (!(error instanceof LostError)) throw error;
        // What ended it may have come from outside.
        const mayGoWell = error.reason === "crash" || error.reason === "disk";
        if (mayGoWell && attempt < attempts.suspect) continue;
        if (error.blamed.has(task) && error.reason !== "disk") this.#pause(query.sql);
        throw error.reason === "time" && error.blamed.has(task)
          ? new UnavailableError(tookTooLong(query.timeout), { cause: error })
          : this.#explain(task, error);
      }
    }
  }

  async #answer(
    task: Extract<Task, { kind: "query" | "execute" }>,
    signal: AbortSignal,
    wait: number,
    limits: RunOptions,
  ): Promise<Answer> {
    const share = this.#room.open();
    const late = new AbortController();
    const timer = setTimeout(
      () => {
        late.abort(noRoom());
      },
      Math.min(wait, longestTimer),
    );
    let isWaiting = false;
    const grow = async (bytes: number): Promise<void> => {
      isWaiting = true;
      await share.grow(bytes, AbortSignal.any([signal, late.signal]));
      isWaiting = false;
    };
    let isInMemory = false;
    const release = (): void => {
      share.release();
      if (!isInMemory) removeFile(task.file).catch(() => undefined);
    };
    try {
      const { text, ...written } = await this.#process.run(task, signal, { ...limits, room: grow });
      share.finish(written.size);
      isInMemory = text !== undefined;
      return { ...written, read: () => (text === undefined ? createReadStream(task.file) : once(text)), release };
    } catch (error) {
      release();
      // The time of a query is also measured where it runs.
      throw isWaiting && messageOf(error) === tookTooLong(wait) ? noRoom() : error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Runs a task that may be begun again. */
  async #repeated<T extends Task>(task: T, signal = none): Promise<Results[T["kind"]]> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#process.run(task, signal);
      } catch (error) {
        const isOver = (lost: LostError): boolean =>
          attempt >= (lost.blamed.has(task) ? attempts.suspect : attempts.innocent);
        if (!(error instanceof LostError) || isOver(error)) throw error;
      }
    }
  }

  #checkPause(sql: string): void {
    const seconds = Math.ceil(((this.#paused.get(sql)?.until ?? 0) - performance.now()) / 1000);
    if (seconds <= 0) return;
    throw new UnavailableError(
      `it was stopped because it took too much memory or time. It can run again in ${seconds} s`,
    );
  }

  #pause(sql: string): void {
    const time = Math.min(pauses.longest, (this.#paused.get(sql)?.time ?? pauses.first / 2) * 2);
    this.#paused.set(sql, { time, until: performance.now() + time });
  }

  /** What is said of a query that was under way when the process was lost. */
  #explain(task: Task, lost: LostError): UnavailableError {
    const options = { cause: lost };
    if (lost.reason === "disk")
      return new UnavailableError(
        "it was stopped because a database could not be written to: its disk may be full. Check what was done, " +
          "and run the rest again",
        options,
      );
    if (!lost.blamed.has(task))
      return new UnavailableError("it was stopped because another query had to be: try again", options);
    if (lost.reason === "memory") {
      const together = lost.blamed.size === 1 ? "it" : "it, or another query that ran beside it,";
      const size = Math.floor(processLimit(this.#memory) / 2 ** 20);
      return new UnavailableError(
        `${together} took more than the ${size} MiB that queries may have, and was stopped`,
        options,
      );
    }
    return new UnavailableError("the process of the databases ended while it was under way", options);
  }

  /** DuckDB's own message, with addresses of its manual, is for the log only. */
  #lackOfMemory(cause: unknown): UnavailableError {
    const size = Math.floor(this.#memory / 2 ** 20);
    return new UnavailableError(`it needs more memory than queries may have (${size} MiB)`, { cause });
  }
}

const none = new AbortController().signal;

function noRoom(): UnavailableError {
  return new UnavailableError("results that are being sent take all the room there is. Try again later");
}

async function hasFiles(folder: string): Promise<boolean> {
  const names = await readdir(folder).catch(() => []);
  return names.length > 0;
}

async function* once(text: string): AsyncGenerator<Buffer> {
  yield Buffer.from(text);
}
