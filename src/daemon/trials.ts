import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { constants, setPriority } from "node:os";
import { fileURLToPath } from "node:url";
import type { Logger } from "pino";
import type { Configuration } from "#config/configuration.ts";
import { trialArgument } from "#daemon/composition.ts";
import { rulesText } from "#config/rules.ts";
import type { Trial, TrialOrder, Trials } from "#console/context.ts";
import { errorDocument, UnavailableError } from "#errors.ts";
import { createQueue } from "#queue.ts";
import { formatDuration } from "#text.ts";
import type { TrialMessage, TrialTask } from "./trial.ts";

/** The trials of the console. */
export interface DaemonTrials extends Trials {
  /** Stops what is being tried. */
  close(): Promise<void>;
}

export interface DaemonTrialsOptions {
  readonly current: () => Configuration;
  readonly log: Pick<Logger, "info" | "warn">;
  /** How long a trial may take, in milliseconds. */
  readonly longest?: number;
}

/** How many trials wait for the one that is under way, and how many that have ended can still be looked at. */
const capacity = { waiting: 4, ended: 20 } as const;

/** In milliseconds: how long a trial may take, and its process to end once it was told to. */
const longest = 60 * 60_000;
const grace = 3000;

/** The most memory of a trial's own, in MiB; what DuckDB may use besides is that of a run. */
const heap = 1024;

/** How many warnings of the sources are shown, and how much of what a process says before it crashes is logged, in characters. */
const kept = { warnings: 20, output: 2000 } as const;

const program = fileURLToPath(new URL("../../bin/rollcall.js", import.meta.url));

/** One trial at a time, each in a process of its own that reads what a run reads. All of it is in memory. */
export function createTrials({ current, log, longest: patience = longest }: DaemonTrialsOptions): DaemonTrials {
  const trials = new Map<string, Slot>();
  const queue = createQueue();

  const finish = (slot: Slot, state: Trial["state"], result: Partial<Trial> = {}): void => {
    slot.trial = { ...slot.trial, ...result, state, progress: undefined, endedAt: new Date().toISOString() };
    const ended = [...trials.values()].filter(({ trial }) => trial.endedAt !== undefined);
    for (const { trial } of ended.slice(0, Math.max(0, ended.length - capacity.ended))) trials.delete(trial.id);
  };
  const run = async (slot: Slot, order: TrialOrder): Promise<void> => {
    const { signal } = slot.stop;
    const { file, text: configuration } = current();
    const timer = setTimeout(() => {
      slot.stop.abort(new UnavailableError(`stopped after ${formatDuration(patience)}`));
    }, patience);
    try {
      slot.trial = { ...slot.trial, state: "running" };
      const result = await work({ ...order, file, configuration }, signal, (message) => {
        slot.trial = told(slot.trial, message);
      });
      if (result.error !== undefined) signal.throwIfAborted();
      finish(slot, result.error === undefined ? "done" : "failed", result);
    } finally {
      clearTimeout(timer);
    }
  };

  return {
    syncs: () => Object.entries(current().syncs).map(([sync, { to: target }]) => ({ sync, target })),
    rules: (sync) => rulesText(current(), sync),
    begin: (order, by) => {
      for (const each of trials.values())
        if (each.by === by && each.trial.endedAt === undefined)
          each.stop.abort(new UnavailableError("stopped, since you began another one"));
      const waiting = [...trials.values()].filter(
        ({ trial, stop }) => trial.state === "waiting" && !stop.signal.aborted,
      );
      if (waiting.length >= capacity.waiting)
        throw new UnavailableError("others try rules, and more wait; try again in a minute");
      const id = randomUUID();
      const startedAt = new Date().toISOString();
      const slot: Slot = {
        by,
        stop: new AbortController(),
        trial: { ...order, id, state: "waiting", startedAt, warnings: [] },
      };
      trials.set(id, slot);
      log.info({ sync: order.sync, by }, `${by} tries rules of ${order.sync}: nothing is changed`);
      queue(() => run(slot, order), slot.stop.signal).catch((error: unknown) => {
        if (slot.stop.signal.aborted) return finish(slot, "stopped", { error: errorDocument(slot.stop.signal.reason) });
        log.warn({ err: error }, `the trial of rules of ${order.sync} failed`);
        return finish(slot, "failed", { error: errorDocument(error) });
      });
      return slot.trial;
    },
    find: (id) => trials.get(id)?.trial,
    stop: (id) => {
      trials.get(id)?.stop.abort(new UnavailableError("stopped"));
    },
    close: async () => {
      for (const { stop } of trials.values()) stop.abort(new UnavailableError("the daemon is stopping"));
      await queue.idle();
    },
  };
}

interface Slot {
  readonly by: string;
  readonly stop: AbortController;
  trial: Trial;
}

/** A trial with what its process has said. */
function told(trial: Trial, message: Exclude<TrialMessage, { readonly type: "result" }>): Trial {
  if (message.type === "progress") {
    const { side, stage, records } = message;
    return { ...trial, progress: { side, stage, records } };
  }
  if (trial.warnings.length >= kept.warnings || trial.warnings.includes(message.message)) return trial;
  return { ...trial, warnings: [...trial.warnings, message.message] };
}

type Result = Extract<TrialMessage, { readonly type: "result" }>["result"];

/**
 * Tries rules in a process.
 * @param signal stops it
 * @throws {UnavailableError} when it ends without a result
 */
async function work(
  task: TrialTask,
  signal: AbortSignal,
  say: (message: Exclude<TrialMessage, { readonly type: "result" }>) => void,
): Promise<Result> {
  const child = fork(program, [trialArgument], {
    execArgv: [`--max-old-space-size=${heap}`],
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  let result: Result | undefined;
  let output = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    output = (output + text).slice(-kept.output);
  });
  child.on("message", (message: TrialMessage) => {
    if (message.type === "result") ({ result } = message);
    else say(message);
  });
  const ended = Promise.withResolvers<string>();
  child.once("error", ({ message }) => {
    ended.resolve(message);
  });
  child.once("close", (code, ended_by) => {
    ended.resolve(ended_by ?? `code ${String(code)}`);
  });
  yieldTo(child);
  child.send(task, () => undefined);
  const end = stopping(child, signal);
  try {
    const how = await ended.promise;
    if (result !== undefined) return result;
    signal.throwIfAborted();
    throw new UnavailableError("the rules need too much memory, or the process that tries them was ended", {
      cause: new Error([how, output.trim()].filter((part) => part !== "").join(", ")),
    });
  } finally {
    end();
  }
}

/** Where processors or memory are short, runs come first. */
function yieldTo({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // It may have ended, or the system may not allow it.
  }
  void writeFile(`/proc/${pid}/oom_score_adj`, "1000").catch(() => undefined);
}

/** Stops a process with a signal: it is asked to clean up, and then killed. @returns a function that ends the watch */
function stopping(child: ChildProcess, signal: AbortSignal): () => void {
  let timer: NodeJS.Timeout | undefined;
  const stop = (): void => {
    child.kill("SIGTERM");
    timer = setTimeout(() => child.kill("SIGKILL"), grace);
  };
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop, { once: true });
  return () => {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  };
}
