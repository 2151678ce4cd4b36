import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { Logger } from "pino";
import type { Configuration } from "#config/configuration.ts";
import { trialArgument } from "#daemon/composition.ts";
import { rulesText } from "#config/rules.ts";
import type { Trial, TrialOrder, TrialMessage, TrialTask } from "./trial.ts";
import { errorDocument, UnavailableError } from "#errors.ts";
import { createQueue } from "#queue.ts";
import { formatDuration } from "#text.ts";
import { yieldProcessors } from "#priority.ts";
import { root } from "#root.ts";

export interface TrialsOptions {
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

const program = fileURLToPath(new URL("bin/rollcall.js", root));

/**
 * Trials of rules on live data, one at a time, each in a process of its own that reads what a run reads. Nothing of them is stored,
 * and nothing can be applied.
 */
export class Trials {
  readonly #options: TrialsOptions;
  readonly #trials = new Map<string, Slot>();
  readonly #queue = createQueue();

  constructor(options: TrialsOptions) {
    this.#options = options;
  }

  /** The syncs to try rules for. */
  syncs(): readonly { readonly sync: string; readonly target: string }[] {
    return Object.entries(this.#options.current().syncs).map(([sync, { to: target }]) => ({ sync, target }));
  }

  /** The rules of a sync as the daemon has them, as YAML, without secrets. */
  rules(sync: string): string {
    return rulesText(this.#options.current(), sync);
  }

  /**
   * @param by who tries them: what the same person tried before is stopped
   * @throws {UnavailableError} when too many wait already
   */
  begin(order: TrialOrder, by: string): Trial {
    const { log } = this.#options;
    const all = [...this.#trials.values()];
    for (const each of all)
      if (each.by === by && each.trial.endedAt === undefined)
        each.stop.abort(new UnavailableError("stopped: you started another trial"));
    const waiting = all.filter(({ trial, stop }) => trial.state === "waiting" && !stop.signal.aborted);
    if (waiting.length >= capacity.waiting)
      throw new UnavailableError("too many trials of rules are running; try again in a minute");
    const id = randomUUID();
    const startedAt = new Date().toISOString();
    const trial: Trial = { ...order, id, state: "waiting", startedAt, warnings: [] };
    const slot: Slot = { by, stop: new AbortController(), trial };
    this.#trials.set(id, slot);
    log.info({ sync: order.sync, by }, `${by} tries rules of ${order.sync}: nothing is changed`);
    this.#queue(() => this.#run(slot, order), slot.stop.signal).catch((error: unknown) => {
      const { signal } = slot.stop;
      if (signal.aborted) return this.#finish(slot, "stopped", { error: errorDocument(signal.reason) });
      log.warn({ err: error }, `the trial of rules of ${order.sync} failed`);
      return this.#finish(slot, "failed", { error: errorDocument(error) });
    });
    return slot.trial;
  }

  /** Undefined: it is not known, any more. */
  find(id: string): Trial | undefined {
    return this.#trials.get(id)?.trial;
  }

  stop(id: string): void {
    this.#trials.get(id)?.stop.abort(new UnavailableError("stopped"));
  }

  /** Stops what is being tried. */
  async close(): Promise<void> {
    for (const { stop } of this.#trials.values()) stop.abort(new UnavailableError("the daemon is stopping"));
    await this.#queue.idle();
  }

  async #run(slot: Slot, order: TrialOrder): Promise<void> {
    const { current, longest: patience = longest } = this.#options;
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
      this.#finish(slot, result.error === undefined ? "done" : "failed", result);
    } finally {
      clearTimeout(timer);
    }
  }

  #finish(slot: Slot, state: Trial["state"], result: Partial<Trial> = {}): void {
    slot.trial = { ...slot.trial, ...result, state, progress: undefined, endedAt: new Date().toISOString() };
    const ended = [...this.#trials.values()].filter(({ trial }) => trial.endedAt !== undefined);
    for (const { trial } of ended.slice(0, Math.max(0, ended.length - capacity.ended))) this.#trials.delete(trial.id);
  }
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
    // By the environment: an executable takes its options from there alone, and its arguments are the program's.
    env: { ...process.env, NODE_OPTIONS: `${process.env["NODE_OPTIONS"] ?? ""} --max-old-space-size=${heap}`.trim() },
    execArgv: [],
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
  yieldProcessors(10, pid);
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
