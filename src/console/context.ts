import type { FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { HostPinboards } from "#control/access.ts";
import { Refusal } from "#control/answers.ts";
import type { Control } from "#control/control.ts";
import type { Plan } from "#plan/change.ts";
import type { Excerpts, Filter, PlanDifferences } from "#plan/stored.ts";
import { UnavailableError } from "#errors.ts";
import type { ErrorDocument } from "#errors.ts";
import type { Explanation } from "#sync/explain/explain.ts";
import type { HistoryEntry } from "#sync/history.ts";
import type { ListedPrincipal, Listing } from "#sync/listing.ts";
import type { RunRecord } from "#sync/record.ts";
import type { Accounts, Visitor } from "./accounts.ts";
import type { Html } from "./html.ts";
import type { Frame } from "./layout.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Who is signed in. */
    visitor: Visitor | undefined;
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

/** What all pages share. */
export interface AppOptions {
  readonly version: string;
  readonly log: Logger;
  readonly viewers: boolean;
  readonly control: Pick<Control, "daemon" | "track" | "isStopping">;
  readonly plans: Plans;
  readonly people: People;
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

/** The fields of a form. */
export function formOf({ body }: FastifyRequest): URLSearchParams {
  return body instanceof URLSearchParams ? body : new URLSearchParams();
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

/** Aborted when whoever asked does not wait any more. */
export function untilLeft({ raw }: FastifyReply): AbortSignal {
  const left = new AbortController();
  raw.once("close", () => {
    if (!raw.writableFinished) left.abort(new UnavailableError("nobody waits for it any more"));
  });
  return left.signal;
}
