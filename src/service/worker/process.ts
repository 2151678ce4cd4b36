import type { ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { UnavailableError } from "#errors.ts";
import { longestTimer } from "#service/engine/engine.ts";
import { forkWorker } from "./fork.ts";
import type { Ending, Forked } from "./fork.ts";
import { received, sent } from "./messages.ts";
import type { FromWorker, Results, Task, ToWorker, WorkerSettings } from "./messages.ts";

export interface ProcessOptions {
  readonly settings: WorkerSettings;
  /** How much memory of its own the process may hold, in bytes. Beyond it, it is killed. */
  readonly limit: number;
  /** How long it stays without a task, in milliseconds. */
  readonly idle: number;
  /** Is called when it has ended before it was told to. */
  readonly onLost: (error: LostError) => void;
}

export interface RunOptions {
  /** Resolves when the answer may grow by so many bytes. */
  readonly room?: ((bytes: number) => Promise<void>) | undefined;
  /** The process is killed when the task is not done in this time, in milliseconds: it does not let itself be stopped. */
  readonly atMost?: number | undefined;
  /** The same, from when the signal was aborted on. */
  readonly atMostAborted?: number | undefined;
}

/** The process has ended before its tasks were done. */
export class LostError extends Error {
  override readonly name = "LostError";
  /** What it was killed for; `disk`: a database has to be opened again; `crash`: it ended by itself. */
  readonly reason: "memory" | "time" | "disk" | "crash";
  /** The tasks that are to blame: one that had to be stopped, or else all queries, or else all. */
  readonly blamed: ReadonlySet<Task>;

  constructor(message: string, reason: LostError["reason"], blamed: ReadonlySet<Task>, cause?: unknown) {
    super(message, { cause });
    this.reason = reason;
    this.blamed = blamed;
  }
}

interface Running {
  readonly child: ChildProcess;
  readonly pending: Map<number, Pending>;
  /** Why it ended, or is about to. */
  lost: LostError | undefined;
  /** Resolves when it has ended. */
  readonly ended: Promise<void>;
}

interface Pending {
  readonly task: Task;
  readonly room: RunOptions["room"];
  readonly outcome: PromiseWithResolvers<Results[keyof Results]>;
}

/** Between two looks at the memory of the process, in milliseconds: it can grow by two gigabytes a second. */
const watchInterval = 25;

/** Beyond this share of its limit, the process is ended when it has nothing to do. DuckDB's own cache takes less. */
const restartShare = 0.75;

/** How long the process may take to close the databases, and to stop what is still under way then, in milliseconds. */
const longestClose = { idle: 5_000, busy: 2_000 };

const none = new AbortController().signal;

/** The process that holds the databases. It is started for the first task, and again after it was lost. */
export class WorkerProcess {
  readonly #options: ProcessOptions;
  #current: Promise<Running> | undefined;
  /** The process before: it has the files until it has ended. */
  #ending: Promise<void> = Promise.resolve();
  #active = 0;
  #lastId = 0;
  #rest: NodeJS.Timeout | undefined;
  #isClosed = false;
  #hasTables = false;
  /** A checkpoint has failed, and there may be no room yet for another. */
  #hasFailed = false;

  constructor(options: ProcessOptions) {
    this.#options = options;
  }

  /**
   * Runs a task in it.
   * @throws {LostError} when the process ends before the task; the signal's reason; what the task throws
   */
  async run<T extends Task>(task: T, signal: AbortSignal, options: RunOptions = {}): Promise<Results[T["kind"]]> {
    signal.throwIfAborted();
    clearTimeout(this.#rest);
    this.#active += 1;
    let running: Running | undefined;
    try {
      running = await this.#start();
      signal.throwIfAborted();
      return (await send(running, ++this.#lastId, task, signal, options)) as Results[T["kind"]];
    } finally {
      this.#active -= 1;
      if (this.#active === 0 && this.#current !== undefined) this.#restAfter(running);
    }
  }

  /** After a database could not be written to: why that is so still, for a person. */
  async problem(): Promise<string | undefined> {
    const running = await this.#current?.catch(() => undefined);
    if (running?.lost?.reason === "disk") return running.lost.message;
    if (!this.#hasFailed) return undefined;
    const problem = await this.run({ kind: "problem" }, none);
    this.#hasFailed = problem !== undefined;
    return problem;
  }

  /** Ends the process for good. What is still under way is stopped. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.#stop();
  }

  async #start(): Promise<Running> {
    if (this.#isClosed) throw new UnavailableError("the service is stopping");
    this.#current ??= this.#startNew();
    const running = await this.#current;
    if (running.lost === undefined) return running;
    await running.ended;
    return this.#start();
  }

  #startNew(): Promise<Running> {
    const starting = this.#ending.then(async () => {
      const { tables, ...rest } = this.#options.settings;
      // A table that somebody drops later stays dropped.
      const settings = { ...rest, tables: this.#hasTables ? undefined : tables, hasFailed: this.#hasFailed };
      const running = await open(forkWorker(), settings, (lost) => {
        this.#hasFailed ||= lost.reason === "disk";
        if (this.#current !== starting) return;
        this.#current = undefined;
        this.#options.onLost(lost);
      });
      this.#hasTables = true;
      return running;
    });
    this.#watch(starting).catch(() => {
      if (this.#current === starting) this.#current = undefined;
    });
    return starting;
  }

  /** Kills the process when it takes too much memory. Returns when it has ended. */
  async #watch(starting: Promise<Running>): Promise<void> {
    const running = await starting;
    const timer = setInterval(() => {
      if (running.pending.size > 0 && memoryOf(running.child) > this.#options.limit) killForMemory(running);
    }, watchInterval);
    timer.unref();
    await running.ended;
    clearInterval(timer);
  }

  /** Ends the process when it has had nothing to do for a while. */
  #restAfter(running: Running | undefined): void {
    const { idle, limit } = this.#options;
    // What large results leave fragmented is given back by a new process, which takes a fifth of a second.
    const isLarge = running !== undefined && memoryOf(running.child) > limit * restartShare;
    this.#rest = setTimeout(() => void this.#stop(), isLarge ? 0 : idle);
    this.#rest.unref();
  }

  async #stop(): Promise<void> {
    clearTimeout(this.#rest);
    if (this.#current !== undefined) {
      this.#ending = this.#current.then(end, () => undefined);
      this.#current = undefined;
    }
    await this.#ending;
  }
}

/**
 * @param onEnded is called when it has ended, before those who wait for it know
 * @throws {InputError} when a database cannot be opened
 */
async function open(
  { child, ended }: Forked,
  settings: WorkerSettings,
  onEnded: (lost: LostError) => void,
): Promise<Running> {
  let isOpen = false;
  const over = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  const running: Running = { child, pending: new Map(), lost: undefined, ended: over.promise };
  const finish = ({ how, cause }: Ending): void => {
    running.lost ??= new LostError(`the process of the databases ended: ${how}`, "crash", tasksOf(running), cause);
    if (isOpen) onEnded(running.lost);
    opened.reject(running.lost);
    for (const { outcome } of running.pending.values()) outcome.reject(running.lost);
    over.resolve();
  };
  void ended.then(finish);
  child.on("message", (message: FromWorker) => {
    if (message.type === "opened") {
      isOpen = true;
      opened.resolve();
    } else if (message.type === "failed") opened.reject(received(message.error));
    else if (message.type === "invalidated") endInvalidated(running, received(message.error));
    else receive(running, message);
  });
  tell(child, { type: "open", settings });
  // Where memory is short, the system should end this process rather than the service.
  void writeFile(`/proc/${String(child.pid)}/oom_score_adj`, "1000").catch(() => undefined);
  try {
    await opened.promise;
  } catch (error) {
    child.kill("SIGKILL");
    await over.promise;
    throw error;
  }
  return running;
}

/** A process that has ended gets no more messages; those who wait for an answer are told in another way. */
function tell(child: ChildProcess, message: ToWorker): void {
  if (child.connected) child.send(message, () => undefined);
}

function receive(
  { child, pending, lost }: Running,
  message: Exclude<FromWorker, { type: "opened" | "failed" | "invalidated" }>,
): void {
  const { id } = message;
  const task = pending.get(id);
  if (message.type === "result") task?.outcome.resolve(message.result);
  else if (message.type === "error") task?.outcome.reject(received(message.error));
  else if (message.type === "lost") task?.outcome.reject(lost);
  else void grant(child, id, task?.room?.(message.bytes));
}

async function grant(child: ChildProcess, id: number, room: Promise<void> | undefined): Promise<void> {
  try {
    if (room === undefined) throw new Error("the answer is over");
    await room;
    tell(child, { type: "room", id });
  } catch (error) {
    tell(child, { type: "room", id, error: sent(error) });
  }
}

async function send(
  running: Running,
  id: number,
  task: Task,
  signal: AbortSignal,
  { room, atMost, atMostAborted }: RunOptions,
): Promise<Results[keyof Results]> {
  const { child, pending } = running;
  const outcome = Promise.withResolvers<Results[keyof Results]>();
  const timers: NodeJS.Timeout[] = [];
  const killAfter = (time: number | undefined): void => {
    if (time === undefined) return;
    const lost = new LostError(
      "the process of the databases was killed: a query did not stop",
      "time",
      new Set([task]),
    );
    timers.push(setTimeout(kill, Math.min(time, longestTimer), running, lost));
  };
  const abort = (): void => {
    tell(child, { type: "abort", id });
    killAfter(atMostAborted);
  };
  pending.set(id, { task, room, outcome });
  signal.addEventListener("abort", abort, { once: true });
  killAfter(atMost);
  tell(child, { type: "task", id, task });
  try {
    return await outcome.promise;
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
    for (const timer of timers) clearTimeout(timer);
    pending.delete(id);
    if (running.lost?.reason === "disk" && pending.size === 0) kill(running, running.lost);
  }
}

function kill(running: Running, lost: LostError): void {
  running.lost ??= lost;
  running.child.kill("SIGKILL");
}

/** Lets what does not need the database end, gives it no more tasks, and kills it. */
function endInvalidated(running: Running, cause: Error): void {
  const lost = new LostError(
    "a database could not be written to, and has to be opened again: there may be no room on its disk",
    "disk",
    tasksOf(running),
    cause,
  );
  running.lost ??= lost;
  setTimeout(kill, running.pending.size === 0 ? 0 : longestClose.busy, running, lost).unref();
}

function killForMemory(running: Running): void {
  const tasks = tasksOf(running);
  const queries = [...tasks].filter(({ kind }) => kind === "query" || kind === "execute");
  const blamed = queries.length > 0 ? new Set(queries) : tasks;
  kill(running, new LostError("the process of the databases was killed: it took too much memory", "memory", blamed));
}

function tasksOf({ pending }: Running): ReadonlySet<Task> {
  return new Set([...pending.values()].map(({ task }) => task));
}

async function end(running: Running): Promise<void> {
  tell(running.child, { type: "close" });
  const longest = running.pending.size > 0 ? longestClose.busy : longestClose.idle;
  const late = setTimeout(() => running.child.kill("SIGKILL"), longest);
  await running.ended;
  clearTimeout(late);
}

/** What only this process has in memory, swapped out or not, in bytes. 0 where the system does not tell. */
function memoryOf({ pid }: ChildProcess): number {
  try {
    // As UTF-8, it is read without a buffer of 64 KiB, forty of them a second.
    const status = readFileSync(`/proc/${String(pid)}/status`, "utf8");
    const sizes = [...status.matchAll(/^(?:RssAnon|VmSwap):\s*(\d+) kB$/gm)];
    return sizes.reduce((sum, [, size]) => sum + Number(size) * 1024, 0);
  } catch {
    return 0;
  }
}
