import type { RunPlans } from "#daemon/plans.ts";
import type { Trials } from "#daemon/trials.ts";
import type { People } from "#daemon/people.ts";
import type { Connections } from "#daemon/connections.ts";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";

import { Refusal } from "#control/answers.ts";
import type { Control } from "#control/control.ts";
import type { InboxAccess } from "#control/inboxes.ts";
import { UnavailableError } from "#errors.ts";
import type { FileSample, HostedLoads, HostedTable, HostPinboards } from "#service/host.ts";
import type { Actor } from "#state/record.ts";
import type { LoadRequest } from "#wire/loads.ts";
import type { Visitor } from "./accounts.ts";
import type { AllAccounts } from "./own-accounts.ts";
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

/**
 * What the beginning of a file says about its format.
 * @param columns of the table it is for
 * @param called what a person calls an option of the format
 * @throws {InputError} when it is no text, or has no rows
 */
export type GuessFormat = (
  sample: FileSample,
  columns: HostedTable["columns"],
  called: (option: string) => string,
) => Promise<FormatGuess>;

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
  /** Where browsers reach the console; absent: where it listens. */
  readonly publicUrl?: string | undefined;
  readonly control: Pick<Control, "daemon" | "track" | "isStopping">;
  readonly plans: RunPlans;
  readonly people: People;
  readonly inboxes: InboxAccess;
  readonly trials: Trials;
  readonly connections: Connections;
  readonly guessFormat: GuessFormat;
  /** The tables and loads of the service whose listener this is; undefined: there is none. */
  readonly loads: HostedLoads | undefined;
  readonly accounts: AllAccounts;
  /** What the paths of that service begin with: none of them is a page. */
  readonly paths: readonly string[];
  /** Of the service whose listener has the console. */
  readonly pinboards?: HostPinboards | undefined;
}

/** The parts that this console does not have. */
export function hiddenParts({ pinboards, inboxes }: Pick<AppOptions, "pinboards" | "inboxes">): Frame["section"][] {
  return [
    ...(pinboards === undefined ? (["pinboards"] as const) : []),
    ...(inboxes.isConfigured() ? [] : (["inbox"] as const)),
  ];
}

/** Sends a page. */
export type Send = (
  request: FastifyRequest,
  reply: FastifyReply,
  frame: Omit<Frame, "version" | "visitor">,
  main: Html,
) => FastifyReply;

/** The visitor, for the journal and the audit log. @throws {Refusal} 401 */
export function actorOf(request: FastifyRequest): Actor {
  const { name, address, via, id } = visitorOf(request);
  return { name, from: address, via, ...(id !== undefined && { id }) };
}

/** The fields of a form. */
export function formOf({ body }: FastifyRequest): URLSearchParams {
  return body instanceof URLSearchParams ? body : new URLSearchParams();
}

/** Answers with a file to store. */
export function download(reply: FastifyReply, file: string, type = "text/csv; charset=utf-8"): FastifyReply {
  return reply.type(type).header("content-disposition", `attachment; filename="${file}"`);
}

/** Aborted when the visitor no longer waits. */
export function untilLeft({ raw }: FastifyReply): AbortSignal {
  const left = new AbortController();
  raw.once("close", () => {
    if (!raw.writableFinished) left.abort(new UnavailableError("nobody waits for it any more"));
  });
  return left.signal;
}

/** @throws {Refusal} 401 */
export function visitorOf({ visitor }: FastifyRequest): Visitor {
  if (visitor === undefined) throw new Refusal(401, "you are not signed in");
  return visitor;
}

/** The offset of a page, from its query. */
export function offsetOf(from: unknown): number {
  return typeof from === "string" && /^\d{1,9}$/.test(from) ? Number(from) : 0;
}
