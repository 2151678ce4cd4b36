import type { ErrorDocument } from "#errors.ts";
import { Worker } from "node:worker_threads";
import type { Composition } from "#daemon/composition.ts";
import { openBoth, syncOf } from "#daemon/wiring.ts";
import { readStateForPlan } from "#daemon/data-folder.ts";
import { EmbeddedService } from "#daemon/embedded.ts";
import { openLog } from "#daemon/log.ts";
import { loadConfiguration } from "#config/load.ts";
import { changeRules } from "#config/rules.ts";
import { errorDocument, UnavailableError } from "#errors.ts";
import { redactAll } from "#redact.ts";
import { explainTwice, planTwice } from "#sync/explain/try.ts";
import type { Side, ExplainedTwice, PlannedTwice } from "#sync/explain/try.ts";
import type { Stage } from "#state/record.ts";

/*
 * A process that tries rules: an expression of somebody who does not own the machine may take any time and memory, and
 * cannot be interrupted, so that only a process can be stopped. `trials.ts` starts it, one for each trial, and kills it.
 */

/** What somebody wants to try. */
export interface TrialOrder {
  readonly sync: string;
  /** Its rules as YAML, changed. */
  readonly text: string;
  /** The user or group to explain. Absent: everybody is planned. */
  readonly name?: string | undefined;
}

/** Rules that are tried, or were. */
export interface Trial extends TrialOrder {
  readonly id: string;
  /** `failed` has an error; `stopped` may have one that says why. */
  readonly state: "waiting" | "running" | "done" | "failed" | "stopped";
  /** ISO 8601. */
  readonly startedAt: string;
  readonly endedAt?: string | undefined;
  /** What it is doing: with which rules, and how many records it has read. */
  readonly progress?:
    | { readonly side: Side; readonly stage?: Stage | undefined; readonly records?: number | undefined }
    | undefined;
  /** Warnings of the sources. */
  readonly warnings: readonly string[];
  readonly explained?: ExplainedTwice | undefined;
  readonly planned?: PlannedTwice | undefined;
  readonly error?: ErrorDocument | undefined;
}

/** What the process is sent: the configuration as the daemon read it, and what to try. */
export interface TrialTask extends TrialOrder {
  readonly file: string;
  readonly configuration: string;
}

/** What the process sends. `result` is its last word. */
export type TrialMessage =
  | { readonly type: "progress"; readonly side: Side; readonly stage?: Stage; readonly records?: number }
  | { readonly type: "warning"; readonly message: string }
  | { readonly type: "result"; readonly result: Pick<Trial, "explained" | "planned" | "error"> };

/** How many changes of each action and kind are shown. */
const shown = 20;

/** Waits for a task, does it, and ends. */
export async function serveTrial(composition: Composition): Promise<number> {
  endWithParent();
  const stop = new AbortController();
  // A terminal tells every process of a group. The daemon says when to stop.
  for (const signal of ["SIGINT", "SIGHUP"] as const) process.on(signal, () => undefined);
  process.on("SIGTERM", () => {
    stop.abort(new UnavailableError("stopped"));
  });
  const { promise, resolve } = Promise.withResolvers<TrialTask>();
  process.once("message", resolve);
  const result = await attempt(await promise, composition, {
    signal: stop.signal,
    send: (message) => void send(message),
  }).catch((error: unknown) => ({ error: errorDocument(error) }));
  await send({ type: "result", result });
  process.disconnect?.();
  return 0;
}

function send(message: TrialMessage): Promise<void> {
  return new Promise((sent) => {
    process.send?.(redactAll(message), () => {
      sent();
    });
  });
}

/** When the daemon is gone, nobody asks for the result. While a rule is evaluated, only another thread can find that out. */
function endWithParent(): void {
  const watch = `
    setInterval(() => {
      if (process.ppid !== ${process.ppid}) process.kill(process.pid, "SIGKILL");
    }, 500);`;
  new Worker(watch, { eval: true }).unref();
}

async function attempt(
  { file, configuration: text, sync: name, text: rules, name: wanted }: TrialTask,
  composition: Composition,
  { signal, send }: { readonly signal: AbortSignal; readonly send: (message: TrialMessage) => void },
): Promise<Pick<Trial, "explained" | "planned">> {
  const configuration = await loadConfiguration(file, { ...composition, text });
  const changed = await changeRules(configuration, name, rules);
  const log = await openLog({ level: "silent", destination: 2 });
  const embedded = new EmbeddedService(configuration, composition, {
    log,
    mayStart: false,
    announcePassword: () => {},
  });
  const { before, after } = await openBoth(configuration, changed, name, embedded);
  await using state = await readStateForPlan(configuration);
  let side: Side = "before";
  const options = {
    state,
    files: state.files,
    memory: configuration.memory,
    interruption: { stop: signal, abandon: signal },
    approval: syncOf(configuration, name).approval,
    waits: true,
    shown,
    begin: (next: Side) => {
      side = next;
      send({ type: "progress", side });
    },
    progress: (stage: Stage, records?: number) => {
      send({ type: "progress", side, stage, ...(records === undefined ? {} : { records }) });
    },
    warn: (message: string) => {
      send({ type: "warning", message });
    },
  };
  try {
    return wanted === undefined
      ? { planned: await planTwice(before, after, options) }
      : { explained: await explainTwice(before, after, wanted, options) };
  } finally {
    await after.target.close();
  }
}
