// Every engine reads with it: it is loaded before the service says which.
import "@duckdb/node-api";
import { setTimeout as delay } from "node:timers/promises";
import { isInvalidated } from "#duckdb/checkpoints.ts";
import { lockHolder } from "#duckdb/database.ts";
import type { Engine, RowSink } from "#service/engine/engine.ts";
import { load } from "#service/loads/commit.ts";
import { preview } from "#service/loads/preview.ts";
import type { Format } from "#service/pinboards/rows.ts";
import { AnswerWriter } from "./answer-writer.ts";
import { received, sent } from "./messages.ts";
import type { FromWorker, Results, Task, ToWorker, WorkerSettings, WrittenRows } from "./messages.ts";

/*
 * The worker: the process that holds the databases. `process.ts` starts it, watches it, and kills it. When the service
 * is gone, so is the worker, whatever it is doing: the next service needs the databases' files.
 */
process.once("disconnect", () => process.kill(process.pid, "SIGKILL"));
// A terminal or an init system tells every process of a group. The service says what to finish.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);

interface Running {
  readonly stop: AbortController;
  readonly over: Promise<void>;
  /** Waits for room for more of an answer. */
  room?: PromiseWithResolvers<void> | undefined;
}

const running = new Map<number, Running>();
let engine: Engine | undefined;

process.on("message", (message: ToWorker) => {
  void receive(message);
});

async function receive(message: ToWorker): Promise<void> {
  switch (message.type) {
    case "open":
      return open(message.settings);
    case "task":
      return run(message.id, message.task);
    case "abort":
      abort(running.get(message.id));
      return;
    case "room": {
      const room = running.get(message.id)?.room;
      if (message.error === undefined) room?.resolve();
      else room?.reject(received(message.error));
      return;
    }
    case "close":
      for (const task of running.values()) abort(task);
      await Promise.all([...running.values()].map(({ over }) => over));
      await engine?.close();
      process.exit(0);
  }
}

function abort(task: Running | undefined): void {
  const stopped = new Error("stopped by the service");
  task?.stop.abort(stopped);
  task?.room?.reject(stopped);
}

function tell(message: FromWorker): void {
  process.send?.(message);
}

/** Only what the engine needs is loaded. */
async function openEngine({ engine, ...options }: WorkerSettings): Promise<Engine> {
  if (engine === "duckdb") {
    const { openDuckDbEngine } = await import("#service/engine/duckdb.ts");
    return openDuckDbEngine({ ...options, onInvalidated: invalidated });
  }
  const { openPostgresEngine } = await import("#service/engine/postgres/postgres.ts");
  return openPostgresEngine({ ...options, postgres: engine, isExpected: true });
}

/** How long the databases' files may stay locked by a worker that is ending, in milliseconds. */
const longestEnd = 5_000;

async function open(settings: WorkerSettings): Promise<void> {
  const until = performance.now() + longestEnd;
  for (;;) {
    try {
      engine ??= await openEngine(settings);
      if (settings.tables !== undefined) await engine.define(settings.tables.sql, settings.tables.origin);
      tell({ type: "opened" });
      return;
    } catch (error) {
      if (lockHolder(error) === undefined || performance.now() > until) {
        tell({ type: "failed", error: sent(error) });
        return;
      }
    }
    await delay(50);
  }
}

let isInvalid = false;

function invalidated(error: unknown): void {
  if (!isInvalid) tell({ type: "invalidated", error: sent(error) });
  isInvalid = true;
}

async function run(id: number, task: Task): Promise<void> {
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const state: Running = { stop: new AbortController(), over };
  running.set(id, state);
  try {
    tell({ type: "result", id, result: await work(id, task, state) });
  } catch (error) {
    if (isInvalidated(error)) {
      invalidated(error);
      tell({ type: "lost", id });
    } else tell({ type: "error", id, error: sent(error) });
  } finally {
    running.delete(id);
    resolve();
  }
}

async function work(id: number, task: Task, state: Running): Promise<Results[keyof Results]> {
  if (engine === undefined) throw new Error("the databases are not open");
  const open = engine;
  const { signal } = state.stop;
  const { kind } = task;
  if (kind === "find") return open.find(task.name);
  if (kind === "tables") return open.list();
  if (kind === "problem") return open.problem();
  if (kind === "checkpoints") {
    await open.holdCheckpoints(task.isHeld);
    return null;
  }
  if (kind === "preview") return preview(task.job, open, signal);
  if (kind === "load") return load(task.job, open, signal);
  return kind === "execute"
    ? written(id, state, task.file, "COMPACT", (sink) => open.execute(task.database, task.sql, signal, sink))
    : written(id, state, task.file, task.format, (sink) => open.query(task.query, signal, sink));
}

/** How many bytes of results may be written before the memory of their chunks is given free. */
const collectInterval = 16 * 2 ** 20;
let uncollected = 0;

function collect(bytes: number): void {
  uncollected += bytes;
  if (uncollected < collectInterval) return;
  uncollected = 0;
  globalThis.gc?.();
}

/** Waits until the service lets it go on. */
async function room(id: number, state: Running, bytes: number): Promise<void> {
  state.stop.signal.throwIfAborted();
  state.room = Promise.withResolvers();
  tell({ type: "room", id, bytes });
  await state.room.promise;
}

async function written(
  id: number,
  state: Running,
  file: string,
  format: Format,
  work: (sink: RowSink) => Promise<number>,
): Promise<WrittenRows> {
  const writer = new AnswerWriter(file, format, async (bytes) => {
    collect(bytes);
    await room(id, state, bytes);
  });
  try {
    return await writer.finish(await work(writer));
  } catch (error) {
    await writer.discard();
    throw error;
  }
}
