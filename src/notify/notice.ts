import { actions, usualWords } from "#plan/change.ts";
import { command } from "#commands.ts";
import { randomUUID } from "node:crypto";
import { firstLineOf } from "#errors.ts";
import type { Counts } from "#plan/change.ts";
import type { Cause } from "#plan/causes.ts";
import type { ExpectationCheck } from "#plan/expectations.ts";
import { isExceeded } from "#plan/limits.ts";
import type { LimitCheck } from "#plan/limits.ts";
import { isEmpty, leavingWords, nameLimits, waitingWords } from "#plan/render/shared.ts";
import { noteLines, readNotes, withoutNames as notesWithoutNames } from "#plan/note.ts";
import type { Note, NoteDocument } from "#plan/note.ts";
import { hasSucceeded, planAgain } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { approvalsWords } from "#sync/coordinator/approvals.ts";
import { limitsLeftOut, trippedLimits } from "#sync/coordinator/refusals.ts";
import { formatNumber, pluralize } from "#text.ts";
import type { NoticeEvent } from "./options.ts";

/** One thing that people are notified of. Any of it may quote foreign text. */
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
  /** The tripped ones. */
  readonly limits: readonly LimitCheck[];
  /** The broken ones. Absent where the sync expects nothing. */
  readonly expectations?: readonly ExpectationCheck[] | undefined;
  /** Why the changes are there, those that explain most first. Absent in notices of 0.1.0. */
  readonly causes?: readonly NoticeCause[] | undefined;
  /** Notes of the plan. */
  readonly notes: readonly Note[];
  /** The details of an error; they may hold names. */
  readonly problems: readonly string[];
  /** Some of the principals that would change, and how: `− zoe`. */
  readonly names: readonly string[];
  readonly digest?: string;
  readonly expiresAt?: string;
  /** What to do next: commands. */
  readonly next: readonly string[];
  /** The page of the run in the console, or of its plan where that waits. Absent: nobody knows where the console is. */
  readonly link?: string | undefined;
}

/** A notice in JSON, posted or stored: its notes are lines. */
export type NoticeDocument = Omit<Notice, "notes"> & NoteDocument;

export function noticeDocument(notice: Notice): NoticeDocument {
  return { ...notice, notes: noteLines(notice.notes) };
}

/** Reads `noticeDocument`. */
export function noticeOf(document: NoticeDocument): Notice {
  return { ...document, notes: readNotes(document) };
}

/** A cause, without an example. */
export type NoticeCause = Omit<Cause, "example">;

/** A notice with only what every notice has. */
function basic(event: NoticeEvent, sync: string, summary: string, next: readonly string[]): Notice {
  const at = new Date().toISOString();
  return {
    id: randomUUID(),
    event,
    at,
    sync,
    summary,
    limits: [],
    causes: [],
    notes: [],
    problems: [],
    names: [],
    next,
  };
}

/** What a notice says besides the run's record. */
export interface Circumstances {
  /** For a recovery: since when there was no success. */
  readonly since?: string;
  /** How often in a row the sync has failed. */
  readonly failures?: number;
  /** Some of the principals that would change. */
  readonly names?: readonly string[];
}

/** The notice of a run that ended or waits. */
export function noticeOfRun(event: NoticeEvent, run: RunRecord, circumstances: Circumstances = {}): Notice {
  const { sync, target, id, counts, digest, expiresAt, error, limits, expectations, causes = [], notes } = run;
  return {
    ...basic(event, sync, summaryOf(event, run, circumstances), commandsOf(event, run)),
    target,
    run: id,
    counts,
    limits: limits.filter(isExceeded),
    expectations: expectations?.filter(({ violations, most }) => violations > most),
    causes: causes.map((cause) => Object.assign({}, cause, { example: undefined })),
    notes,
    problems: error?.problems ?? [],
    names: circumstances.names ?? [],
    digest,
    expiresAt: event === "pending" || event === "held" ? expiresAt : undefined,
  };
}

/** The notice with a link to the console. @param publicUrl where that is, without a final slash */
export function withLink(notice: Notice, publicUrl: string): Notice {
  const { run, event } = notice;
  if (run === undefined) return notice;
  const page = event === "pending" || event === "held" ? "/plan" : "";
  return { ...notice, link: `${publicUrl}/runs/${encodeURIComponent(run)}${page}` };
}

export function noticeOfOverdue(sync: string, since: string): Notice {
  const next = [command("runs"), command("check")];
  return basic("overdue", sync, `has not succeeded since ${moment(since)}, which is longer than overdueAfter`, next);
}

export function noticeOfSkipped(sync: string, at: string, reason: string): Notice {
  return basic("skipped", sync, `the slot of ${moment(at)} was skipped: ${reason}`, [command("runs")]);
}

/** The notice of `rollcall notify test`. */
export function noticeOfTest(): Notice {
  return basic("test", "test", `nothing has happened: this is a test of the channel (${command("notify test")})`, []);
}

/** The notice without everything that may name principals. */
export function withoutNames(notice: Notice): Notice {
  // Values are those of persons, and a membership's attribute is the name of a group.
  const causes = notice.causes?.map(({ id, kind, source, attribute, users, groups }): NoticeCause => {
    const named = kind === "membership" ? undefined : attribute;
    return { id, kind, source, attribute: named, users, groups };
  });
  const limits = notice.limits.map((check): LimitCheck => ({ ...check, groups: undefined }));
  const expectations = notice.expectations?.map((each) => Object.assign({}, each, { examples: [] }));
  return { ...notice, limits, causes, expectations, notes: notesWithoutNames(notice.notes), problems: [], names: [] };
}

function summaryOf(event: NoticeEvent, run: RunRecord, { since, failures = 1 }: Circumstances): string {
  const { counts, leaving, approvals = [] } = run;
  const isApproved = approvals.length > 0;
  const approvalWords = `${approvalsWords(run)} (by ${approvals.map(({ by }) => by.name).join(", ")})`;
  const changes = counts === undefined ? "" : changesIn(counts);
  const departing = leaving === undefined ? "" : `; ${leavingWords(leaving, event === "held")}`;
  const planned = counts === undefined || (isEmpty(counts) && leaving !== undefined) ? "" : `; planned were ${changes}`;
  switch (event) {
    case "pending":
      if (isApproved) return `${approvalWords}${changes === "" ? "" : `: ${changes}`}${departing}`;
      return `a plan awaits approval${run.caution === undefined ? "" : `, because ${run.caution}`}: ${changes}${departing}`;
    case "held":
      if (hasSucceeded(run)) return `${waitingWords(run.waiting)}; the rest: ${changes}`;
      if (isApproved) return `${approvalWords}, despite ${nameLimits(trippedLimits(run))}${planned}${departing}`;
      return `${heldBy(run)}${planned}${departing}`;
    case "failed": {
      const often =
        failures > 1 ? ` ${formatNumber(failures)} times in a row, and is given up until the next slot` : "";
      return `failed${often}: ${firstLineOf(run.error?.message ?? "for an unknown reason")}`;
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
      const names = limits.filter(isExceeded).map(({ limit }) => limit);
      return `held by ${nameLimits(names)}; nothing was applied`;
    }
    case "opinions":
      return "held because the plan and the target's own preview differ; nothing was applied";
    case "verification":
      return "held after applying: the target does not match the plan";
    case "digest":
      return "held because the changes differ from the plan that was shown; nothing was applied";
    case undefined:
    default:
      return `held: ${firstLineOf(error?.message ?? "its changes differ from the plan that was shown")}`;
  }
}

function commandsOf(event: NoticeEvent, run: RunRecord): string[] {
  const { id, sync, state, heldBy, limits } = run;
  const show = command("show", id);
  const reject = command("reject", id, "--reason", "…");
  switch (event) {
    case "pending":
      return [show, command("approve", id), reject];
    case "held": {
      if (hasSucceeded(run)) return [show, command("plan", sync, "--override", limitsLeftOut(run).join(","))];
      if (heldBy !== "limits") return [show, planAgain(run)];
      const names = [...new Set(limits.filter(({ tripped }) => tripped).map(({ limit }) => limit))];
      return [show, command("approve", id, "--override", names.join(",")), reject];
    }
    case "failed":
      return [show, command("check")];
    case "recovered":
    case "applied":
      return state === "applied" ? [show, command("undo", id)] : [show];
    case "overdue":
    case "skipped":
    case "test":
    default:
      return [show];
  }
}

/** `3 users created, 1 deleted; 1 group updated; 4 memberships added`. */
function changesIn(counts: Counts): string {
  const ofKind = (kind: "user" | "group"): string => {
    const parts = actions.map((action) => ({ action, amount: counts[`${kind}s`][action] ?? 0 }));
    return parts
      .filter(({ amount }) => amount > 0)
      .map(({ action, amount }, index) =>
        [index === 0 ? pluralize(amount, kind) : formatNumber(amount), usualWords[action]].join(" "),
      )
      .join(", ");
  };
  const { membershipsAdded: added, membershipsRemoved: removed } = counts;
  const all = [
    ofKind("user"),
    ofKind("group"),
    added === 0 ? "" : `${pluralize(added, "membership")} added`,
    removed === 0 ? "" : `${pluralize(removed, "membership")} removed`,
  ];
  return all.filter((each) => each !== "").join("; ") || "no change";
}

/** A time for people: `2026-11-21 10:12 UTC`. */
export function moment(iso: string): string {
  const time = Date.parse(iso);
  return Number.isNaN(time) ? iso : `${new Date(time).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** What a channel sends at once: a notice, or a digest of several. It stays on disk until it is sent. */
export interface Message {
  /** The same at every attempt to send it. */
  readonly id: string;
  /** ISO 8601. */
  readonly createdAt: string;
  /** Not sent before then; a digest collects until then. ISO 8601. */
  readonly dueAt: string;
  /** At least one, at most `mostNotices`; the oldest first. */
  readonly notices: readonly Notice[];
  /** How many more notices there were. */
  readonly more: number;
  /** A test of the channel. */
  readonly test?: true;
}

/** The most notices in a message: nobody reads a longer digest. */
export const mostNotices = 100;
