import type { Readable } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";

import { Refusal } from "#control/answers.ts";
import type { Control } from "#control/control.ts";
import type { Plan } from "#plan/change.ts";
import type { Excerpts, Filter, PlanDifferences } from "#plan/stored.ts";
import { UnavailableError } from "#errors.ts";
import type { ErrorDocument } from "#errors.ts";
import type { FileSample, HostedLoads, HostedTable, HostPinboards } from "#service/host.ts";
import type { Explanation } from "#sync/explain/explain.ts";
import type { ExplainedTwice, PlannedTwice, Side } from "#sync/explain/try.ts";
import type { HistoryEntry } from "#sync/history.ts";
import type { ListedPrincipal, Listing } from "#sync/listing.ts";
import type { QuarantinedRecords } from "#state/quarantined.ts";
import type { Actor, RunRecord, Stage } from "#state/record.ts";
import type { ApprovalPolicy } from "#sync/run.ts";
import type { LoadRequest } from "#wire/loads.ts";
import type { Accounts, Visitor } from "./accounts.ts";
import type { Html } from "./html.ts";
import type { Frame } from "./layout.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Who is signed in. */
    visitor: Visitor | undefined;
  }
  interface FastifyContextConfig {
    /** For everybody who may load data, whether or not they may look at the syncs. */
    forLoads?: boolean;
    /** The form has a file: the route reads it, and checks its token, by itself. */
    takesFile?: boolean;
  }
}

/** The stored plans of runs. */
export interface Plans {
  /**
   * Opens the plan of a run for as long as `read` takes. What it shows is as far as it matches the filter.
   * @throws {InputError} when the run has none
   */
  read<Result>(run: RunRecord, filter: Filter, read: (plan: Plan) => Promise<Result>): Promise<Result>;
  /** The same, for reading it page by page. */
  excerpts<Result>(run: RunRecord, filter: Filter, read: (excerpts: Excerpts) => Promise<Result>): Promise<Result>;
  /** The quarantined records that a run has read; undefined where they are not stored. */
  quarantined(run: RunRecord): Promise<QuarantinedRecords | undefined>;
  /** How the plan of a run differs from one that was shown before. */
  compare(shown: RunRecord, now: RunRecord): Promise<PlanDifferences>;
}

/** Whether somebody is a user or a group. */
export type Kind = ListedPrincipal["kind"];

/** Why a sync could not explain. */
export interface Unexplained {
  readonly sync: string;
  readonly error: ErrorDocument;
}

/** What is known of somebody's past: as far as plans are stored. */
export interface KnownHistory {
  /** Newest first. */
  readonly entries: readonly HistoryEntry[];
  /** There are earlier ones. */
  readonly more: boolean;
  /** Of how many of the runs the changes are stored. */
  readonly stored: number;
  readonly runs: number;
}

/** The users and groups of targets. */
export interface People {
  /** The targets that syncs write to. */
  targets(): readonly string[];
  /**
   * Reads the list of a target.
   * @param instead do not read the list of that moment, ISO 8601
   * @returns undefined while the target is being listed: ask again
   */
  list<Result>(
    target: string,
    instead: string | undefined,
    read: (listing: Listing) => Promise<Result>,
  ): Promise<Result | undefined>;
  /**
   * What each sync to a target would do with everything of a name. Reads the sources.
   * @param left stops it
   */
  explain(target: string, name: string, left: AbortSignal): Promise<readonly (Explanation | Unexplained)[]>;
  history(target: string, kind: Kind, name: string): Promise<KnownHistory>;
}

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
  /** Of the sources. */
  readonly warnings: readonly string[];
  readonly explained?: ExplainedTwice | undefined;
  readonly planned?: PlannedTwice | undefined;
  readonly error?: ErrorDocument | undefined;
}

/** Tries rules on live data. Nothing of it is stored, and nothing can be applied. */
export interface Trials {
  /** The syncs to try rules for. */
  syncs(): readonly { readonly sync: string; readonly target: string }[];
  /** The rules of a sync as the daemon has them, as YAML, without secrets. */
  rules(sync: string): string;
  /**
   * @param by who tries them: what the same person tried before is stopped
   * @throws {UnavailableError} when too many wait already
   */
  begin(order: TrialOrder, by: string): Trial;
  /** Undefined: it is not known, any more. */
  find(id: string): Trial | undefined;
  stop(id: string): void;
}

/** A sync as it is configured. Durations are in milliseconds. */
export interface ConfiguredSync {
  readonly sync: string;
  readonly target: string;
  readonly sources: readonly { readonly name: string; readonly optional: boolean }[];
  /** A cron expression, and the time zone it is in; absent: on demand, and that of this machine. */
  readonly schedule?: string | undefined;
  readonly timezone?: string | undefined;
  readonly retries: number;
  /** How long it may go without a success; absent: forever. */
  readonly overdueAfter?: number | undefined;
  readonly approval: ApprovalPolicy;
  /** How long whoever has left the sources stays in the target. */
  readonly grace: number;
  /** What a tripped limit does. */
  readonly beyondLimits: "hold" | "apply-the-rest";
  readonly exports: boolean;
}

/** What can be checked. */
export type Checked = "sync" | "source" | "target";

/** What `rollcall check` says of one name of the configuration, without secrets. */
export interface CheckFinding {
  readonly what: Checked;
  readonly name: string;
  /** `5 users, 2 groups`, `reached`; absent: it failed. */
  readonly headline?: string | undefined;
  /** What was reached, how the connection is protected, and as whom. */
  readonly reached: readonly string[];
  /** The first principals that the rules make. */
  readonly principals: readonly Readonly<Record<string, unknown>>[];
  /** For a person to look at. */
  readonly problems: readonly string[];
  readonly error?: ErrorDocument | undefined;
}

/** A check that somebody asked for: it waits or is under way, or it has ended. */
export interface Check {
  /** ISO 8601. */
  readonly startedAt: string;
  /** Who asked for it. */
  readonly by: string;
  /** What is being done; absent: it waits for another check. */
  readonly progress?: string | undefined;
  /** What was found; absent: it has not ended. */
  readonly findings?: readonly CheckFinding[] | undefined;
  /** How long it took, once it has ended. */
  readonly milliseconds?: number | undefined;
}

/** The sources, targets and syncs of the configuration, and what `rollcall check` says of them. */
export interface Connections {
  syncs(): readonly ConfiguredSync[];
  /** With the word after `connector:`. */
  sources(): readonly { readonly name: string; readonly connector: string }[];
  /** With its address without a password; undefined: the service of this data folder. */
  targets(): readonly { readonly name: string; readonly address?: string | undefined }[];
  /** The last check of something; undefined: there was none since the daemon began. */
  checked(what: Checked, name: string): Check | undefined;
  /** Begins a check, unless one is under way. A sync is checked with its sources. */
  check(what: Checked, name: string, by: Actor): void;
  /** Calls `listener` whenever a check moves on. Returns a function that ends that. */
  subscribe(listener: () => void): () => void;
}

/** What is known of the formats of files. */
export interface Formats {
  /**
   * What the beginning of a file says about its format.
   * @param columns of the table it is for
   * @param called what a person calls an option of the format
   * @throws {InputError} when it is no text, or has no rows
   */
  guess(sample: FileSample, columns: HostedTable["columns"], called: (option: string) => string): Promise<FormatGuess>;
  /** Unpacks what gzip or zstd packed; everything else stays as it is. */
  unpacked(name: string, content: Readable): Readable;
}

export interface FormatGuess {
  readonly format: LoadRequest["format"];
  /** The names in the header; none where there is no header. */
  readonly header: readonly string[];
  /** For a person: what else was found, and what only a person can decide. */
  readonly notes: readonly string[];
  readonly doubts: readonly string[];
}

/** What all pages share. */
export interface AppOptions {
  readonly version: string;
  readonly log: Logger;
  readonly viewers: boolean;
  readonly control: Pick<Control, "daemon" | "track" | "isStopping">;
  readonly plans: Plans;
  readonly people: People;
  readonly trials: Trials;
  readonly connections: Connections;
  readonly formats: Formats;
  /** The tables and loads of the service whose listener this is; undefined: there is none. */
  readonly loads: HostedLoads | undefined;
  readonly accounts: Accounts;
  /** Of the service whose listener has the console. */
  readonly pinboards?: HostPinboards | undefined;
}

/** Sends a page. */
export type Send = (
  request: FastifyRequest,
  reply: FastifyReply,
  frame: Omit<Frame, "version" | "visitor">,
  main: Html,
) => FastifyReply;

/** Whoever is signed in, for the journal and the audit log. @throws {Refusal} 401 */
export function actorOf(request: FastifyRequest): Actor {
  const { name, address } = visitorOf(request);
  return { name, from: address };
}

/** The fields of a form. */
export function formOf({ body }: FastifyRequest): URLSearchParams {
  return body instanceof URLSearchParams ? body : new URLSearchParams();
}

/** Aborted when whoever asked does not wait any more. */
export function untilLeft({ raw }: FastifyReply): AbortSignal {
  const left = new AbortController();
  raw.once("close", () => {
    if (!raw.writableFinished) left.abort(new UnavailableError("nobody waits for it any more"));
  });
  return left.signal;
}

/** @throws {Refusal} 401 */
export function visitorOf({ visitor }: FastifyRequest): Visitor {
  if (visitor === undefined) throw new Refusal(401, "nobody is signed in");
  return visitor;
}

/** The offset of a page, from its query. */
export function offsetOf(from: unknown): number {
  return typeof from === "string" && /^\d{1,9}$/.test(from) ? Number(from) : 0;
}
