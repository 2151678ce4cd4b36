import type { FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { Refusal } from "#control/answers.ts";
import type { Control } from "#control/control.ts";
import type { Filter, PlanDifferences, StoredPlan } from "#plan/stored.ts";
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
  read<Result>(run: RunRecord, filter: Filter, read: (plan: StoredPlan) => Promise<Result>): Promise<Result>;
  /** How the plan of a run differs from one that was shown before. */
  compare(shown: RunRecord, now: RunRecord): Promise<PlanDifferences>;
}

/** What all pages share. */
export interface AppOptions {
  readonly version: string;
  readonly log: Logger;
  readonly viewers: boolean;
  readonly control: Pick<Control, "daemon" | "track" | "isStopping">;
  readonly plans: Plans;
  readonly accounts: Accounts;
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
