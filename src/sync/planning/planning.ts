import { join } from "node:path";
import type { Connection } from "#duckdb/database.ts";
import type { Workbench } from "#duckdb/workbench.ts";
import type { Departures } from "#plan/departures.ts";
import type { History, Overridable } from "#plan/limits.ts";
import { readSyncAnswer } from "#plan/lists.ts";
import type { NoteSubject } from "#sync/record.ts";
import type { Sync } from "#sync/sync.ts";
import { makeDesired } from "./desired.ts";
import type { DesiredOptions } from "./desired.ts";
import { planWithinLimits, scopeOfSources } from "./limits.ts";
import type { LimitedPlan } from "./limits.ts";
import { notesOf, told } from "./notes.ts";

/** A plan, and what there is to say about it. */
export interface Planned extends LimitedPlan {
  /** What a person should know beside the changes, one line each. */
  readonly notes: readonly string[];
  /** Which of them are about single principals. */
  readonly subjects?: readonly NoteSubject[] | undefined;
  /** Absent where it was decided when the plan was made. */
  readonly departures?: Departures | undefined;
}

/**
 * Makes the tables `actual` and `desired` of a workbench, with those that the ledger is written from, and the plan.
 * Expects the tables of `openLedger`.
 */
export type Planner = (sync: Sync, workbench: Workbench, options: PlanningOptions) => Promise<Planned>;

export interface PlanningOptions extends Omit<DesiredOptions, "reads" | "observer"> {
  /** The daemon's folder. */
  readonly folder: string;
  /** False: nothing is kept for the next run. */
  readonly apply: boolean;
  readonly history: History;
  readonly overrides?: readonly Overridable[] | undefined;
}

/** Plans what the sources and the rules say. */
export const planFromSources: Planner = async (sync, workbench, options) => {
  const { connection } = workbench;
  const { history, overrides = [] } = options;
  const reads = { folder: join(options.folder, "reads"), write: options.apply };
  const desired = await makeDesired(sync, workbench, { ...options, reads });
  const unread = desired.assembly.unread.map(({ name }) => name);
  const scope = await scopeOfSources(connection, sync, unread);
  const limited = await planWithinLimits(connection, sync, { scope, history, overrides });
  const { checks: limits, waiting } = limited;
  return {
    ...limited,
    ...told(notesOf({ ...desired, sync: sync.name, limits, waiting })),
    departures: desired.departures,
  };
};

/**
 * Compares the plan (table `changes`) with what the service answered to the same list (a file that holds the object of
 * specification 2.8). The two are computed apart and must name the same principals.
 * @returns what differs, one line each, the first twenty; empty when they agree
 */
export async function compareOpinions(
  connection: Connection,
  answer: string,
  said: "would" | "did",
): Promise<string[]> {
  await readSyncAnswer(connection, answer, "opinion");
  const rows = await connection.rows<{ who: "plan" | "service"; action: string; kind: string; name: string }>(`
    SELECT 'plan' AS who, * FROM (SELECT action, kind, name FROM changes EXCEPT SELECT action, kind, name FROM opinion)
    UNION ALL
    SELECT 'service' AS who, * FROM (SELECT action, kind, name FROM opinion EXCEPT SELECT action, kind, name FROM changes)
    ORDER BY kind, name, who LIMIT 20`);
  const [does, doesNot] = said === "would" ? ["would", "would not"] : ["did", "did not"];
  return rows.map(({ who, action, kind, name }) =>
    who === "plan"
      ? `the plan is to ${action} the ${kind} ${name}; the service ${doesNot}`
      : `the service ${does} ${action} the ${kind} ${name}; that is not planned`,
  );
}
