import type { SyncEvent } from "#sync/coordinator/coordinator.ts";
import type { RunRecord } from "#sync/record.ts";
import type { NoticeEvent } from "./options.ts";
import { noticeOfOverdue, noticeOfRun, noticeOfSkipped } from "./notice.ts";
import type { Notice } from "./notice.ts";

/** What people have been told already. It is kept from one process to the next. */
export interface Memory {
  readonly syncs: Readonly<Record<string, SyncMemory>>;
  /** Runs and their states, the newest last. */
  readonly told: readonly string[];
}

interface SyncMemory {
  /** People know that its runs fail, since then. */
  readonly failingSince?: string;
  /** People know that it has not succeeded since then. */
  readonly overdueSince?: string;
  /** The plan that waits, and why: people know of it. */
  readonly plan?: string;
}

/** What is to be told of one event: of these notices, each channel gets the first that it is for. */
export interface Telling {
  readonly notices: readonly Notice[];
  /** The run that it is about. */
  readonly run?: RunRecord;
}

/** Decides what of all that happens people are told. */
export interface Watch {
  /**
   * `settle`: a run has failed, and whether it is tried again is not known yet; `settle` is to be called with it when
   * there was time to say so.
   */
  take(event: SyncEvent): Telling | { readonly settle: RunRecord } | undefined;
  settle(run: RunRecord): Telling | undefined;
  memory(): Memory;
}

const remembered = 100;

export function createWatch(memory: Memory = { syncs: {}, told: [] }): Watch {
  const syncs = new Map(Object.entries(memory.syncs));
  let told = [...memory.told];
  /** Of each sync, the run that failed last, when none has succeeded since. */
  const failed = new Map<string, string>();
  /** Of each sync, what was said last of what follows a failure. It may be said before the failure itself. */
  const follows = new Map<string, { readonly id: string; readonly isRetried: boolean; readonly failures: number }>();

  const of = (sync: string): SyncMemory => syncs.get(sync) ?? {};
  const once = (key: string): boolean => {
    if (told.includes(key)) return false;
    told = [...told, key].slice(-remembered);
    return true;
  };

  function success(run: RunRecord): Telling | undefined {
    const { failingSince, overdueSince } = of(run.sync);
    syncs.delete(run.sync);
    failed.delete(run.sync);
    const since = overdueSince ?? failingSince;
    const events: NoticeEvent[] = [
      ...(since === undefined ? [] : ["recovered" as const]),
      ...(run.state === "applied" ? ["applied" as const] : []),
    ];
    if (events.length === 0) return undefined;
    return { notices: events.map((event) => noticeOfRun(event, run, { since })), run };
  }

  function waiting(run: RunRecord, event: "pending" | "held"): Telling | undefined {
    const known = of(run.sync);
    const plan = `${event} ${run.heldBy ?? ""} ${run.digest ?? run.id}`;
    if (known.plan === plan) return undefined;
    syncs.set(run.sync, { ...known, plan });
    return { notices: [noticeOfRun(event, run)], run };
  }

  function takeRun(run: RunRecord): Telling | { readonly settle: RunRecord } | undefined {
    // Who decides about a run that waits changes its record, not its state.
    if (run.state !== "running" && !once(`${run.id} ${run.state}`)) return undefined;
    switch (run.state) {
      case "pending":
      case "held":
        return waiting(run, run.state);
      case "failed":
        failed.set(run.sync, run.id);
        return of(run.sync).failingSince === undefined ? { settle: run } : undefined;
      case "applied":
      case "no change":
        return success(run);
      case "rejected":
      case "expired": {
        // The same plan is new when it is found after that.
        const { plan: _, ...rest } = of(run.sync);
        syncs.set(run.sync, rest);
        return undefined;
      }
      case "running":
      case "superseded":
      default:
        return undefined;
    }
  }

  return {
    take(event) {
      switch (event.type) {
        case "run":
          return takeRun(event.run);
        case "retry":
          follows.set(event.sync, { id: event.id, isRetried: true, failures: 1 });
          return undefined;
        case "gave up":
          follows.set(event.sync, { id: event.id, isRetried: false, failures: event.failures });
          return undefined;
        case "overdue": {
          const known = of(event.sync);
          if (known.overdueSince === event.since) return undefined;
          syncs.set(event.sync, { ...known, overdueSince: event.since });
          return { notices: [noticeOfOverdue(event.sync, event.since)] };
        }
        case "skipped":
          return { notices: [noticeOfSkipped(event.sync, event.at, event.reason)] };
        case "stage":
        default:
          return undefined;
      }
    },
    settle(run) {
      const said = follows.get(run.sync);
      const next = said?.id === run.id ? said : { isRetried: false, failures: 1 };
      const known = of(run.sync);
      const isOver = failed.get(run.sync) !== run.id;
      if (isOver || next.isRetried || known.failingSince !== undefined) return undefined;
      syncs.set(run.sync, { ...known, failingSince: run.startedAt });
      return { notices: [noticeOfRun("failed", run, { failures: next.failures })], run };
    },
    memory: () => ({ syncs: Object.fromEntries(syncs), told }),
  };
}
