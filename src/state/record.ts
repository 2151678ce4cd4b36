import { command, forOptions } from "#commands.ts";
import { noteDocument, readNotes } from "#plan/note.ts";
import type { Note, NoteDocument } from "#plan/note.ts";
import type { ErrorDocument, HeldBy } from "#errors.ts";
import type { Cause as ChangeCause } from "#plan/causes.ts";
import type { Counts } from "#plan/change.ts";
import type { LeavingCounts } from "#plan/departures.ts";
import type { ExpectationCheck } from "#plan/expectations.ts";
import type { LimitCheck, Measure, Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import { withoutCase } from "#text.ts";

/** The stages of a run, in order. A dry run ends after `preview`. */
export type Stage = "read" | "list" | "plan" | "preview" | "apply" | "verify";

/**
 * The state of a run.
 * - `running`: it is running or queued, or was when its process ended.
 * - `pending`: its plan waits for approval. `held`: limits, or a difference between the plan and the service's preview,
 *   stopped it, or the target was not as planned after the apply.
 * - `no change`: there was nothing to do. `applied`: applied, and verified by listing the target again.
 * - `failed`: an error ended it. `rejected`: a person did. `superseded`: a later run of the sync found another plan.
 *   `expired`: nobody approved it in time.
 *
 * These are stored. `stateName` says more to people.
 */
export const runStates = [
  "running",
  "pending",
  "held",
  "no change",
  "applied",
  "failed",
  "rejected",
  "superseded",
  "expired",
] as const;
export type RunState = (typeof runStates)[number];

/** The states that people and metrics are told: a run that somebody stopped is stored as `failed`, which 0.2 can read. */
export const stateNames = [...runStates, "cancelled"] as const;
export type StateName = (typeof stateNames)[number];

export function stateName({ state, cancelled }: Pick<RunRecord, "state" | "cancelled">): StateName {
  return state === "failed" && cancelled === true ? "cancelled" : state;
}

/** Why a run began. */
export type Cause = "start" | "schedule" | "catch-up" | "retry" | "demand" | "undo";

/**
 * How a person proved their identity.
 * - `service`: a user of the service. `target`: one of a target, checked by signing in there. `account`: an account of Rollcall.
 *   `oidc`: the OpenID provider.
 * - `command line`: they can read the data folder. Their name is that of the machine's account, which they could choose.
 */
export type Via = "service" | "target" | "account" | "oidc" | "command line";

/** Who did something and from where. Whether two are one person: `personOf`. */
export interface Actor {
  /** A user of the service, an account of this machine, or `rollcall` itself. */
  readonly name: string;
  /** `schedule`, `signal`, `command line`, or the address of a client. */
  readonly from: string;
  /** Absent: nobody signed in (a schedule, a signal), or the record is of a version before 0.3. */
  readonly via?: Via | undefined;
  /** What tells them apart where names do not: the subject at the provider, the target whose user it is. */
  readonly id?: string | undefined;
  /** The name of the access token that they used. */
  readonly token?: string | undefined;
}

/**
 * The person: equal for two actors that may be one. A name alone is none: `ada` of the provider is not the account `ada`.
 * Holders of the data folder name themselves, and prove nothing by it: all of them are one. Names count whatever their case:
 * a target may take `Ada` and `ada` for one user, and only the name that was typed is known.
 */
export function personOf({ via = "command line", name, id }: Actor): string {
  if (via === "command line") return via;
  return JSON.stringify([via, id ?? "", via === "oidc" ? "" : foldedName(name)]);
}

/** Whether somebody may be who did something. Of a version before 0.3 only their name is known. */
export function mayBe(somebody: Actor, done: Actor): boolean {
  if (personOf(somebody) === personOf(done)) return true;
  return done.via === undefined && foldedName(somebody.name) === foldedName(done.name);
}

function foldedName(name: string): string {
  return withoutCase(name).trim();
}

const viaWords: Readonly<Record<Via, string>> = {
  service: "user of the service",
  target: "user of the target",
  account: "local account",
  oidc: "single sign-on",
  "command line": "command line",
};

/** Who, how and from where: `ada (single sign-on, 192.0.2.7)`; `rollcall` itself from nowhere else. */
export function actorWords({ name, from, via, token }: Actor): string {
  const way = via === "command line" && name === from ? "" : via && viaWords[via];
  const ways = [way, token === undefined ? undefined : `token ${token}`, from === name ? "" : from];
  const shown = [...new Set(ways.filter((way) => way !== undefined && way !== ""))];
  return shown.length === 0 ? name : `${name} (${shown.join(", ")})`;
}

/** One stage of a run. */
export interface StageRecord {
  readonly stage: Stage;
  /** ISO 8601. */
  readonly startedAt: string;
  /** Absent while it runs, or if it was aborted. */
  readonly milliseconds?: number;
  /** The number of records or principals, if known. */
  readonly records?: number;
}

/** A decision of a person about a run. */
export interface Decision {
  readonly decision: "approved" | "rejected";
  /** ISO 8601. */
  readonly at: string;
  readonly by: Actor;
  /** The digest of the plan. */
  readonly digest: string;
  readonly reason?: string;
  /** The limits that were overridden. */
  readonly overrides?: readonly Overridable[];
  readonly selection?: Selection;
}

/** Who must approve a plan. */
export interface Approvers {
  /** How many different people. */
  readonly people: number;
  /** The person who asked for the run does not count. */
  readonly notTheRequester: boolean;
}

/** A run's findings in one of its sources. */
export interface SourceRead {
  readonly source: string;
  /** How many records of each kind are in scope, those that are quarantined included. */
  readonly users: number;
  readonly groups: number;
  readonly quarantined: number;
  /** It is the same since then, ISO 8601: as it says, and then it was not read again, or as it was read. */
  readonly unchangedSince?: string | undefined;
  /** What providers had pushed until then, ISO 8601. Absent: nobody pushes to it. */
  readonly pushedUntil?: string | undefined;
  /** It is optional and could not be read, so everything that came from it stays as it is. */
  readonly error?: ErrorDocument | undefined;
}

/** One run in the journal. */
export interface RunRecord {
  /** Sorts by time: `20261121-101235-4f9c2e`, in UTC. */
  readonly id: string;
  readonly sync: string;
  /** The target's name. */
  readonly target: string;
  /** Identifies the target's service, whatever its name. Absent in records of versions before 0.3. */
  readonly place?: string | undefined;
  readonly cause: Cause;
  readonly by: Actor;
  /** The slot of the schedule that it is for, where it is for one. */
  readonly slot?: string | undefined;
  /** The run that this one undoes. */
  readonly undoes?: string;
  /** Names of users and groups: it is about these alone. Absent: about everybody. */
  readonly for?: readonly string[] | undefined;
  /** ISO 8601, like every time here. */
  readonly startedAt: string;
  /** Absent while it is running or pending. */
  readonly endedAt?: string;
  readonly state: RunState;
  readonly stages: readonly StageRecord[];
  /** Absent without a plan. */
  readonly digest?: string;
  readonly counts?: Counts;
  readonly limits: readonly LimitCheck[];
  /** Why the changes are there, those that explain most first. Absent: not found out, or an undo. */
  readonly causes?: readonly ChangeCause[];
  /** The sync's expectations with the plan's verdicts. Absent: it has none. */
  readonly expectations?: readonly ExpectationCheck[] | undefined;
  /** The findings in each source. Absent where none was read, and in records of older versions. */
  readonly sources?: readonly SourceRead[] | undefined;
  /** The measures that limits left out of the plan. */
  readonly waiting: readonly Measure[];
  /** What a person should know besides the changes. */
  readonly notes: readonly Note[];
  /** Principals gone from the sources and still in their grace period. */
  readonly leaving?: LeavingCounts | undefined;
  /** How many records were quarantined. Absent in records of older versions. */
  readonly quarantined?: number | undefined;
  /** Why it is held. Only a run held by `limits` can be approved. */
  readonly heldBy?: HeldBy;
  /** Of a failed run: somebody stopped it, or the process that ran it, before it sent anything. */
  readonly cancelled?: true | undefined;
  /** Why it failed or is held: safe to show. */
  readonly error?: ErrorDocument;
  /** Why a person must approve it, although the sync usually needs no approval. */
  readonly caution?: string;
  /** It can be approved until then. */
  readonly expiresAt?: string;
  /** Later runs found the same plan: how often, and when last. */
  readonly foundAgain?: { readonly count: number; readonly lastAt: string };
  readonly decisions: readonly Decision[];
  /** Who must approve its plan while it waits. Absent: one person. */
  readonly approvers?: Approvers | undefined;
  /** The approvals of a plan that waits for more of them. With the last one they become its decisions. */
  readonly approvals?: readonly Decision[] | undefined;
  /** For a superseded run: the run that waits with the same plan. */
  readonly sameAs?: string;
  /** When it began to send the list to be applied: from then on the target may have changed. */
  readonly sentAt?: string;
  /** The list was sent; it is not known yet whether it was applied. */
  readonly endUnknown?: true;
  /** Its end as found out later, after its process was killed or the target's answer got lost. */
  readonly recovery?: string;
  /** The export after it, as `--json` shows it; with `error` if it failed. */
  readonly export?: Readonly<Record<string, unknown>>;
  /** Whether its plan is still stored. */
  readonly kept: boolean;
  /** Proves that its stored plan is unaltered. Absent in records of versions before 0.3. */
  readonly seal?: string | undefined;
  /** The same of the part of it that is being approved. */
  readonly partSeal?: string | undefined;
}

/** A run in JSON: in `--json`, in the API and where it is stored. Its notes are lines. */
export type RunDocument = Omit<RunRecord, "notes"> & NoteDocument;

export function runDocument(run: RunRecord): RunDocument {
  return { ...run, ...noteDocument(run.notes) };
}

/** Reads `runDocument`. */
export function recordOf({ notes, subjects, ...run }: RunDocument): RunRecord {
  return { ...run, notes: readNotes({ notes, subjects }) };
}

/** A slot in which no run began. */
export interface SkippedSlot {
  readonly at: string;
  readonly reason: string;
}

/** The state of a sync from run to run. */
export interface SyncState {
  /** When the daemon first scheduled it. */
  readonly knownSince?: string;
  readonly lastSuccessAt?: string;
  /** The failures in a row and when they began. */
  readonly failures?: { readonly count: number; readonly since: string };
  /** The last slot that was run or skipped. */
  readonly lastSlotAt?: string;
  /** The newest last, at most twenty. */
  readonly skipped: readonly SkippedSlot[];
  /**
   * A person has undone a run, or earlier decisions are not known: every run needs approval until a person approves one.
   */
  readonly caution?: { readonly since: string; readonly reason: string };
  /** Since when it has been reported as overdue. */
  readonly overdueSince?: string;
}

/** The status of a sync. */
export interface SyncStatus extends SyncState {
  readonly sync: string;
  readonly target: string;
  readonly schedule?: string;
  /** ISO 8601; absent: it runs only on demand. */
  readonly nextSlotAt?: string;
  /** Why there is no next slot although it has a schedule. */
  readonly scheduleProblem?: string;
  /** The id of the run that is running or queued. */
  readonly running?: string;
  /** The id of the run that waits for approval. */
  readonly pending?: string;
  /** It has not succeeded for longer than is configured. */
  readonly overdue: boolean;
}

/**
 * An event. `run`: a run began, ended or was decided about; `recovered`: the first success after failures; `elsewhere`: in
 * another process, which tells people of it.
 */
export type SyncEvent =
  | { readonly type: "run"; readonly run: RunRecord; readonly recovered?: boolean; readonly elsewhere?: boolean }
  | {
      readonly type: "stage";
      readonly id: string;
      readonly sync: string;
      readonly stage: Stage;
      readonly records?: number;
    }
  | { readonly type: "skipped"; readonly sync: string; readonly at: string; readonly reason: string }
  /** A failed run will be retried at that time. */
  | { readonly type: "retry"; readonly sync: string; readonly id: string; readonly at: string }
  /** A run has failed as often as is configured; the next run is at the next slot. */
  | { readonly type: "gave up"; readonly sync: string; readonly id: string; readonly failures: number }
  /** The sync has not succeeded for longer than is configured. */
  | { readonly type: "overdue"; readonly sync: string; readonly since: string };

/** Whether a run can be approved: its plan is stored, and it is pending or held by limits. */
export function isOpen({ state, heldBy }: RunRecord): boolean {
  return state === "pending" || (state === "held" && heldBy === "limits");
}

/** Whether two are about one target: by its place where that is known, else by its name. */
export function isSameTarget(one: Pick<RunRecord, "target" | "place">, other: typeof one): boolean {
  const areKnown = one.place !== undefined && other.place !== undefined;
  return areKnown ? one.place === other.place : one.target === other.target;
}

/** The command that plans anew what a run of these planned: an undo, or a sync for everybody or for some. */
export function planAgain({ sync, undoes, for: people }: Pick<RunRecord, "sync" | "undoes" | "for">): string {
  return undoes === undefined ? command("plan", sync, ...forOptions(people)) : command("undo", undoes);
}

/** Whether it is running, or ended without anybody knowing how. */
export function isUnfinished({ state, endUnknown }: RunRecord): boolean {
  return state === "running" || endUnknown === true;
}

/** Whether there was nothing to do, or everything was applied and verified. */
export function hasSucceeded(run: RunRecord): run is RunRecord & { state: "applied" | "no change" } {
  const { state } = run;
  return state === "applied" || state === "no change";
}

/** Whether it has read all records of its sources: one that failed may have read nothing, one with nothing new did not. */
export function hasReadAll({ counts, for: people, undoes, sources = [] }: RunRecord): boolean {
  const isOld = sources.length > 0 && sources.every(({ unchangedSince }) => unchangedSince !== undefined);
  return counts !== undefined && people === undefined && undoes === undefined && !isOld;
}

/** The record of a run whose process ended before it sent anything. A run that was being approved waits again. */
export function unsent(run: RunRecord, at: string): RunRecord {
  const stage = run.stages.at(-1)?.stage;
  const recovery = `its process was killed${stage === undefined ? "" : ` after the stage ${stage}`}, or could no longer write: nothing was applied`;
  if (run.expiresAt !== undefined) return { ...run, state: run.heldBy === "limits" ? "held" : "pending", recovery };
  return withError({ ...run, state: "failed", endedAt: at, recovery });
}

/** The record of a run whose process has ended and that is not recovered yet, as far as it is known. */
export function lostRecord(run: RunRecord): RunRecord {
  const endedAt = run.stages.at(-1)?.startedAt ?? run.startedAt;
  if (run.sentAt === undefined) return unsent(run, endedAt);
  const recovery = "its process was killed while applying; the sync's next run finds out what arrived";
  return withError({ ...run, state: "failed", endedAt, endUnknown: true, recovery });
}

/** The record of a run whose stored plan has only the approved part left. */
export function withPart(run: RunRecord): RunRecord {
  return { ...without(run, ["partSeal"]), seal: run.partSeal };
}

/** A failed run says why. */
export function withError(run: RunRecord): RunRecord {
  if (run.state !== "failed" || run.error !== undefined) return run;
  return { ...run, error: { message: run.recovery ?? "its process ended", problems: [], advice: "retry" } };
}

/** Of each sync, the last run that has read all records of its sources: what it had in doubt is in doubt now. */
export function lastReads(runs: readonly RunRecord[]): ReadonlySet<RunRecord> {
  const last = new Map<string, RunRecord>();
  for (const run of runs.filter(hasReadAll)) if (run.id > (last.get(run.sync)?.id ?? "")) last.set(run.sync, run);
  return new Set(last.values());
}

/** The record without some of its keys. */
export function without(run: RunRecord, keys: readonly (keyof RunRecord)[]): RunRecord {
  return Object.fromEntries(Object.entries(run).filter(([key]) => !(keys as readonly string[]).includes(key))) as never;
}

/** A sync with the newest of its runs that have come to something, and those that wait. */
export interface Standing extends SyncStatus {
  readonly lastRun?: RunRecord | undefined;
  readonly waiting: readonly RunRecord[];
}

/** @param runs newest first */
export function standingsOf(syncs: readonly SyncStatus[], runs: readonly RunRecord[]): Standing[] {
  return syncs.map((status) => {
    const own = runs.filter(({ sync }) => sync === status.sync);
    const lastRun = own.find(({ state }) => state !== "superseded" && state !== "running");
    return { ...status, lastRun, waiting: own.filter(isOpen) };
  });
}

/** An event in JSON: in the API, and where it is stored. */
export type EventDocument =
  | Exclude<SyncEvent, { type: "run" }>
  | (Omit<Extract<SyncEvent, { type: "run" }>, "run"> & { readonly run: RunDocument });

export function eventDocument(event: SyncEvent): EventDocument {
  return event.type === "run" ? { ...event, run: runDocument(event.run) } : event;
}

/** Reads `eventDocument`. */
export function eventOf(document: EventDocument): SyncEvent {
  return document.type === "run" ? { ...document, run: recordOf(document.run) } : document;
}
