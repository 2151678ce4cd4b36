import { messageOf } from "#errors.ts";
import { conclude, tell } from "./conclusions.ts";
import type { Books } from "./conclusions.ts";
import { without } from "./ending.ts";
import type { RunRecord } from "./record.ts";
import { findOut } from "./recovery.ts";
import type { Sync } from "./sync.ts";

export interface RecoveryOptions extends Books {
  readonly folder: string;
  readonly memory: number;
  readonly open: (name: string) => Promise<Sync>;
  readonly isUnderWay: (id: string) => boolean;
}

/** What becomes of runs that nobody has seen end. */
export interface Recovery {
  /** The runs of which it is not known how they ended. */
  left(): readonly RunRecord[];
  /** Of those whose list was never sent, it is: nothing was applied. */
  ofNeverSent(): Promise<void>;
  /** Reads the target to find out about the runs of a sync, before another one begins. */
  before(sync: string): Promise<void>;
  /** The end of one run whose list was sent: by reading the target. Never rejects. */
  findEnd(run: RunRecord, storedAs: string): Promise<RunRecord>;
}

/** How long a target is waited for, in milliseconds. */
const patience = 60_000;

const words = {
  nothing: "the target was read again: nothing of it was applied",
  neither:
    "the target was read again: it is neither what it was nor what was planned; the next run plans from what it is",
};

export function createRecovery(options: RecoveryOptions): Recovery {
  const { journal, store, now, open, folder, memory, isUnderWay } = options;
  const iso = (): string => new Date(now()).toISOString();
  const left = (): RunRecord[] =>
    journal.document.runs.filter(
      ({ id, state, endUnknown }) => (state === "running" || endUnknown === true) && !isUnderWay(id),
    );

  const findEnd: Recovery["findEnd"] = async (run, storedAs) => {
    const failed = { ...without(run, ["endUnknown"]), state: "failed", endedAt: run.endedAt ?? iso() } as const;
    let sync: Sync | undefined;
    try {
      sync = await open(run.sync);
      const signal = AbortSignal.timeout(patience);
      const found = await findOut(sync, store, storedAs, { folder, memory, signal, now: now() });
      if (found !== "arrived") return { ...failed, recovery: words[found] };
      const recovery = "the target was read again: all of it has arrived";
      return { ...without(failed, ["error"]), state: "applied", endedAt: iso(), recovery };
    } catch (error) {
      return { ...failed, endUnknown: true, recovery: `what became of it is not known yet: ${messageOf(error)}` };
    } finally {
      await sync?.target.close();
    }
  };
  const recover = async (run: RunRecord): Promise<void> => {
    const isPart = run.decisions.at(-1)?.selection !== undefined;
    const ended = await findEnd(run, isPart ? `${run.id}.part` : run.id);
    if (ended.state === "applied" && isPart) await store.move(`${run.id}.part`, run.id);
    const { by, id, state: result, digest, recovery: finding = "" } = ended;
    const entry = { event: "recovered", by, sync: run.sync, run: id, result, finding } as const;
    if (ended.endUnknown !== true) await tell({ ...entry, ...(digest === undefined ? {} : { digest }) }, options);
    // Its failure is known already.
    if (run.state === "failed" && ended.state === "failed") await journal.put(ended);
    else await conclude(withError(ended), options);
  };
  return {
    left,
    findEnd,
    ofNeverSent: async () => {
      for (const run of left()) if (run.sentAt === undefined) await conclude(neverSent(run, iso()), options);
    },
    before: async (sync) => {
      for (const run of left())
        if (run.sync === sync)
          await (run.sentAt === undefined ? conclude(neverSent(run, iso()), options) : recover(run));
    },
  };
}

/** A run that ended with its process before it sent anything. What was being approved awaits that again. */
function neverSent(run: RunRecord, at: string): RunRecord {
  const stage = run.stages.at(-1)?.stage;
  const recovery = `its process ended${stage === undefined ? "" : ` after the stage ${stage}`}: nothing was applied`;
  if (run.expiresAt !== undefined) return { ...run, state: run.heldBy === "limits" ? "held" : "pending", recovery };
  return withError({ ...run, state: "failed", endedAt: at, recovery });
}

function withError(run: RunRecord): RunRecord {
  if (run.state !== "failed" || run.error !== undefined) return run;
  return { ...run, error: { message: run.recovery ?? "its process ended", problems: [], advice: "retry" } };
}
