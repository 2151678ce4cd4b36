import { randomUUID } from "node:crypto";
import { firstLineOf } from "#errors.ts";
import type { Counts } from "#plan/change.ts";
import type { LimitCheck } from "#plan/limits.ts";
import type { RunRecord } from "#sync/record.ts";
import { formatNumber } from "#text.ts";
import type { NoticeEvent } from "./options.ts";

/** What a person is told. Everything in it may be foreign text, but for what Rollcall itself says. */
export interface Notice {
  readonly id: string;
  readonly event: NoticeEvent;
  /** ISO 8601, as every time here. */
  readonly at: string;
  readonly sync: string;
  readonly target?: string;
  readonly run?: string;
  /** What happened, in one sentence. */
  readonly summary: string;
  readonly counts?: Counts;
  /** Those that are tripped. */
  readonly limits: readonly LimitCheck[];
  /** What a person should know beside that, a line each. Lines that begin with two spaces hold names. */
  readonly notes: readonly string[];
  /** What an error said in detail; may hold names. */
  readonly problems: readonly string[];
  /** Some of the principals that would change, and how: `− zoe`. */
  readonly names: readonly string[];
  readonly digest?: string;
  readonly expiresAt?: string;
  /** What to do next: commands. */
  readonly next: readonly string[];
}

/** What a notice always has, with nothing to say beside it. */
function plain(event: NoticeEvent, sync: string, summary: string, next: readonly string[]): Notice {
  const at = new Date().toISOString();
  return { id: randomUUID(), event, at, sync, summary, limits: [], notes: [], problems: [], names: [], next };
}

/** What is known of a run's notice beside the run itself. */
export interface Circumstances {
  /** Since when runs failed, or there was no success: of a recovery. */
  readonly since?: string;
  /** How often in a row it has failed. */
  readonly failures?: number;
  /** Some of the principals that would change. */
  readonly names?: readonly string[];
}

/** The notice of a run that came to an end, or waits. */
export function noticeOfRun(event: NoticeEvent, run: RunRecord, circumstances: Circumstances = {}): Notice {
  const { sync, target, id, counts, digest, expiresAt, error, limits, notes } = run;
  return {
    ...plain(event, sync, summaryOf(event, run, circumstances), commandsOf(event, run)),
    target,
    run: id,
    counts,
    limits: limits.filter(({ tripped, overridden }) => tripped && !overridden),
    notes,
    problems: error?.problems ?? [],
    names: circumstances.names ?? [],
    digest,
    expiresAt: event === "pending" || event === "held" ? expiresAt : undefined,
  };
}

export function noticeOfOverdue(sync: string, since: string): Notice {
  const next = ["rollcall runs", "rollcall check"];
  return plain("overdue", sync, `has not succeeded since ${moment(since)}: longer than it may (overdueAfter)`, next);
}

export function noticeOfSkipped(sync: string, at: string, reason: string): Notice {
  return plain("skipped", sync, `the slot of ${moment(at)} was skipped: ${reason}`, ["rollcall runs"]);
}

/** What somebody gets who tries a channel. */
export function noticeOfTest(): Notice {
  return plain("test", "test", "nothing has happened: somebody tries this channel (rollcall notify test)", []);
}

/** A notice without what holds names of principals. */
export function withoutNames(notice: Notice): Notice {
  const notes = notice.notes.filter((note) => !note.startsWith("  "));
  return { ...notice, notes, problems: [], names: [] };
}

function summaryOf(event: NoticeEvent, run: RunRecord, { since, failures = 1 }: Circumstances): string {
  const changes = run.counts === undefined ? "" : changesIn(run.counts);
  switch (event) {
    case "pending":
      return `a plan awaits approval${run.caution === undefined ? "" : `, because ${run.caution}`}: ${changes}`;
    case "held":
      return `${heldBy(run)}${changes === "" ? "" : `; planned were ${changes}`}`;
    case "failed": {
      const often = failures > 1 ? ` ${times(failures)}, and is given up until the next slot` : "";
      return `failed${often}: ${firstLineOf(run.error?.message ?? "for a reason that is not known")}`;
    }
    case "recovered":
      return `succeeded again${since === undefined ? "" : `, for the first time since ${moment(since)}`}: ${run.state === "applied" ? `applied and verified, ${changes}` : "nothing to change"}`;
    case "applied":
      return `applied and verified: ${changes}${run.waiting.length > 0 ? "; some changes wait because of limits" : ""}`;
    case "overdue":
    case "skipped":
    case "test":
    default:
      return run.state;
  }
}

function heldBy({ heldBy, limits, error }: RunRecord): string {
  switch (heldBy) {
    case "limits": {
      const names = new Set(limits.filter((each) => each.tripped && !each.overridden).map(({ limit }) => limit));
      return `held by ${names.size === 1 ? "the limit" : "limits:"} ${[...names].join(", ")}; nothing was applied`;
    }
    case "opinions":
      return "held because the plan and the target's own preview differ; nothing was applied";
    case "verification":
      return "held after it was applied: the target is not what was planned";
    case "digest":
      return "held because the changes are no longer those that were shown; nothing was applied";
    case undefined:
    default:
      return `held: ${firstLineOf(error?.message ?? "going on would not do what was shown")}`;
  }
}

function commandsOf(event: NoticeEvent, { id, sync, state, heldBy, limits }: RunRecord): string[] {
  const show = `rollcall show ${id}`;
  switch (event) {
    case "pending":
      return [show, `rollcall approve ${id}`, `rollcall reject ${id} --reason "…"`];
    case "held": {
      if (heldBy !== "limits") return [show, `rollcall plan ${sync}`];
      const names = [...new Set(limits.filter(({ tripped }) => tripped).map(({ limit }) => limit))];
      return [show, `rollcall approve ${id} --override ${names.join(",")}`, `rollcall reject ${id} --reason "…"`];
    }
    case "failed":
      return [show, "rollcall check"];
    case "recovered":
    case "applied":
      return state === "applied" ? [show, `rollcall undo ${id}`] : [show];
    case "overdue":
    case "skipped":
    case "test":
    default:
      return [show];
  }
}

/** How much of what: `3 users created, 1 deleted; 1 group updated; 4 memberships added`. */
function changesIn({ users, groups, membershipsAdded, membershipsRemoved }: Counts): string {
  const kinds = [
    { name: "user", counts: users },
    { name: "group", counts: groups },
  ].flatMap(({ name, counts }) => {
    const parts = (["create", "update", "delete"] as const).filter((action) => counts[action] > 0);
    const words = parts.map((action, index) => {
      const count = formatNumber(counts[action]);
      return index === 0 ? `${count} ${name}${counts[action] === 1 ? "" : "s"} ${action}d` : `${count} ${action}d`;
    });
    return words.length === 0 ? [] : [words.join(", ")];
  });
  const memberships = [
    { count: membershipsAdded, what: "added" },
    { count: membershipsRemoved, what: "removed" },
  ].flatMap(({ count, what }) =>
    count === 0 ? [] : [`${formatNumber(count)} membership${count === 1 ? "" : "s"} ${what}`],
  );
  const all = [...kinds, ...memberships];
  return all.length === 0 ? "no change" : all.join("; ");
}

/** A moment for a person: `2026-11-21 10:12 UTC`. */
export function moment(iso: string): string {
  const time = Date.parse(iso);
  return Number.isNaN(time) ? iso : `${new Date(time).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

function times(count: number): string {
  return count === 1 ? "once" : `${formatNumber(count)} times in a row`;
}

/** What goes out by one channel at once: a notice, or what a digest has collected. It is kept on disk until it has gone. */
export interface Message {
  /** Tells it from every other, and stays the same however often it is sent. */
  readonly id: string;
  /** ISO 8601. */
  readonly createdAt: string;
  /** Not sent before; a digest collects until then. ISO 8601. */
  readonly dueAt: string;
  /** At least one, at most `mostNotices`; the oldest first. */
  readonly notices: readonly Notice[];
  /** How many more there were. */
  readonly more: number;
  /** Somebody tries the channel. */
  readonly test?: true;
}

/** A digest of more than so many notices is not read. */
export const mostNotices = 100;
