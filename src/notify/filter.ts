import type { RunRecord, SyncEvent } from "#state/record.ts";
import { checksLeftOut } from "#sync/coordinator/refusals.ts";
import type { NoticeEvent } from "./options.ts";
import { noticeOfOverdue, noticeOfRun, noticeOfSkipped } from "./notice.ts";
import type { Notice } from "./notice.ts";

/** What people have been told already. It is stored for the next process. */
export interface FilterState {
  readonly syncs: Readonly<Record<string, SyncState>>;
  /** Runs and their states, the newest last. */
  readonly told: readonly string[];
}

interface SyncState {
  /** People know since when its runs fail. */
  readonly failingSince?: string;
  /** People know since when it is overdue. */
  readonly overdueSince?: string;
  /** The waiting plan that people know of, and why it waits. */
  readonly plan?: string;
  /** People know what the limits leave out of its plans. */
  readonly leftOut?: string | undefined;
}

/** The notices of one event: each channel sends the first that it subscribes to. */
export interface Announcement {
  readonly notices: readonly Notice[];
  /** The run that they are about. */
  readonly run?: RunRecord;
}

const remembered = 100;

/** The success of a run for some: of the sync as a whole it says nothing. */
function successForSome(run: RunRecord): Announcement | undefined {
  return run.state === "applied" ? { notices: [noticeOfRun("applied", run)], run } : undefined;
}

/** What the limits leave out of a plan whose rest is applied; empty: nothing. */
function leftOutOf(run: RunRecord): string {
  return checksLeftOut(run)
    .map(({ limit, of, value }) => `${limit} ${of} ${value}`)
    .join();
}

/** Decides which events people are notified of. */
export class Filter {
  readonly #syncs: Map<string, SyncState>;
  #told: readonly string[];
  /** By sync: the last failed run, if none has succeeded since. */
  readonly #failed = new Map<string, string>();
  /** By sync: the last event about a retry. It may come before the failure itself. */
  readonly #follows = new Map<
    string,
    { readonly id: string; readonly isRetried: boolean; readonly failures: number }
  >();

  constructor({ syncs, told }: FilterState = { syncs: {}, told: [] }) {
    this.#syncs = new Map(Object.entries(syncs));
    this.#told = told;
  }

  /**
   * `settle`: a run has failed, and it is not known yet whether it will be retried. Call `settle` with it once that is
   * known.
   */
  take(event: SyncEvent): Announcement | { readonly settle: RunRecord } | undefined {
    switch (event.type) {
      case "run":
        return this.#takeRun(event.run);
      case "retry":
        this.#follows.set(event.sync, { id: event.id, isRetried: true, failures: 1 });
        return undefined;
      case "gave up":
        this.#follows.set(event.sync, { id: event.id, isRetried: false, failures: event.failures });
        return undefined;
      case "overdue": {
        const known = this.#of(event.sync);
        if (known.overdueSince === event.since) return undefined;
        this.#syncs.set(event.sync, { ...known, overdueSince: event.since });
        return { notices: [noticeOfOverdue(event.sync, event.since)] };
      }
      case "skipped":
        return { notices: [noticeOfSkipped(event.sync, event.at, event.reason)] };
      case "stage":
      default:
        return undefined;
    }
  }

  settle(run: RunRecord): Announcement | undefined {
    const said = this.#follows.get(run.sync);
    const next = said?.id === run.id ? said : { isRetried: false, failures: 1 };
    const known = this.#of(run.sync);
    const isOver = this.#failed.get(run.sync) !== run.id;
    if (isOver || next.isRetried || known.failingSince !== undefined) return undefined;
    this.#syncs.set(run.sync, { ...known, failingSince: run.startedAt });
    return { notices: [noticeOfRun("failed", run, { failures: next.failures })], run };
  }

  state(): FilterState {
    return { syncs: Object.fromEntries(this.#syncs), told: this.#told };
  }

  #takeRun(run: RunRecord): Announcement | { readonly settle: RunRecord } | undefined {
    // A decision about a waiting run changes its record before its state.
    const approvals = (run.approvals ?? []).length;
    const stage = approvals === 0 ? run.state : `${run.state} ${approvals}`;
    if (run.state !== "running" && !this.#once(`${run.id} ${stage}`)) return undefined;
    switch (run.state) {
      case "pending":
      case "held":
        return this.#waiting(run, run.state);
      case "failed":
        // The person who asked for it has been told.
        if (run.for !== undefined) return undefined;
        this.#failed.set(run.sync, run.id);
        return this.#of(run.sync).failingSince === undefined ? { settle: run } : undefined;
      case "applied":
      case "no change":
        return run.for === undefined ? this.#success(run) : successForSome(run);
      case "rejected":
      case "expired": {
        // If a later run finds the same plan, it is news again.
        const { plan: _, ...rest } = this.#of(run.sync);
        this.#syncs.set(run.sync, rest);
        return undefined;
      }
      case "running":
      case "superseded":
      default:
        return undefined;
    }
  }

  #success(run: RunRecord): Announcement | undefined {
    const { failingSince, overdueSince, leftOut: known } = this.#of(run.sync);
    const leftOut = leftOutOf(run);
    const since = overdueSince ?? failingSince;
    // A channel gets one notice of a run, and a recovery comes first: then the next run tells it.
    if (leftOut === "") this.#syncs.delete(run.sync);
    else this.#syncs.set(run.sync, { leftOut: since === undefined ? leftOut : known });
    this.#failed.delete(run.sync);
    const events: NoticeEvent[] = [
      ...(since === undefined ? [] : ["recovered" as const]),
      ...(leftOut !== "" && leftOut !== known ? ["held" as const] : []),
      ...(run.state === "applied" ? ["applied" as const] : []),
    ];
    if (events.length === 0) return undefined;
    return { notices: events.map((event) => noticeOfRun(event, run, { since })), run };
  }

  #waiting(run: RunRecord, event: "pending" | "held"): Announcement | undefined {
    const known = this.#of(run.sync);
    // An approval that is not enough is news, too: for those who can give the next one.
    const plan = `${event} ${run.heldBy ?? ""} ${run.digest ?? run.id}${"+".repeat((run.approvals ?? []).length)}`;
    if (known.plan === plan) return undefined;
    // A plan for some waits beside the one for everybody.
    if (run.for === undefined) this.#syncs.set(run.sync, { ...known, plan });
    return { notices: [noticeOfRun(event, run)], run };
  }

  #of(sync: string): SyncState {
    return this.#syncs.get(sync) ?? {};
  }

  #once(key: string): boolean {
    if (this.#told.includes(key)) return false;
    this.#told = [...this.#told, key].slice(-remembered);
    return true;
  }
}
