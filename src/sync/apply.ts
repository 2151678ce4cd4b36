import type { Connection } from "#duckdb/database.ts";
import { HeldError } from "#errors.ts";
import { createChanges } from "#plan/diff.ts";
import { readSyncAnswer, writePrincipals } from "#plan/lists.ts";
import { formatName, visible } from "#text.ts";
import type { Run, Verdict } from "./context.ts";
import { listTarget } from "#sync/planning/desired.ts";
import type { Planned } from "#sync/planning/limits.ts";
import { passwordOf } from "./sync.ts";

/** What the service makes of the list that would be sent. */
export interface Preview {
  /** What was prepared to be sent. Absent: the service has spoken already of this very list. */
  readonly request?: ListRequest | undefined;
  /** How its answer differs from the plan, one line each. */
  readonly disagreements: readonly string[];
}

/** The preview and the apply send the same list. */
interface ListRequest {
  /** The file that holds it. */
  readonly principals: string;
  readonly defaultPassword: string;
  /** If the plan deletes nothing, the apply may not delete either: what somebody else has created since the list stays. */
  readonly deletes: boolean;
}

/** Writes the list, and has the service preview it. */
export async function preview(run: Run, { plan }: Planned, { changed }: Verdict): Promise<Preview> {
  const { sync, options, workbench, unchanged } = run;
  // Without changes, the list that is sent is the one that the target has: of that the service has spoken already.
  if (!changed && unchanged.isAgreed) return { disagreements: [] };
  options.progress?.("preview");
  const principals = workbench.file("desired.json");
  await writePrincipals(workbench.connection, principals);
  const { users, groups } = plan.counts;
  const request = { principals, defaultPassword: passwordOf(sync), deletes: users.delete + groups.delete > 0 };
  const disagreements = await send(run, request, false);
  // Where the target says that its list has not changed, and it has, the next run must not believe it again.
  if (disagreements.length > 0 && options.apply) await unchanged.forgetList();
  return { request, disagreements };
}

/** Sends the list to be applied. @returns how the service's answer differs from the plan, one line each */
export async function apply(run: Run, { request }: Preview): Promise<readonly string[]> {
  if (request === undefined) return [];
  await run.options.applying?.();
  run.options.progress?.("apply");
  return send(run, request, true);
}

async function send(
  { sync, options, workbench, watching }: Run,
  { principals, defaultPassword, deletes }: ListRequest,
  applyChanges: boolean,
): Promise<string[]> {
  const answer = workbench.file(applyChanges ? "applied.json" : "preview.json");
  const deleteOthers = !applyChanges || deletes;
  const watched = applyChanges ? { sending: options.sending } : {};
  // The target is often a service in this process.
  await workbench.makeRoom();
  const request = { principals, applyChanges, deleteOthers, defaultPassword, ...watched };
  await sync.target.sync(request, answer, watching.signal());
  return compareOpinions(workbench.connection, answer, applyChanges ? "did" : "would");
}

/**
 * Compares the plan with the service's answer to the same list (the object of 2.8). The two are computed independently and
 * must name the same principals.
 * @returns the first twenty differences, one line each; empty when they agree
 */
async function compareOpinions(connection: Connection, answer: string, said: "would" | "did"): Promise<string[]> {
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

/**
 * Lists the target again: it must be what was desired.
 * @param differences between the plan and what the service says it did
 * @returns the entity tag of that list; undefined where the target gives none
 * @throws {HeldError} when it is not
 */
export async function verify(
  { sync, options, workbench, watching }: Run,
  differences: readonly string[],
): Promise<string | undefined> {
  options.progress?.("verify");
  const { target } = sync;
  const { connection } = workbench;
  await workbench.makeRoom();
  const tag = await listTarget(target, workbench, "arrived", watching.signal());
  await createChanges(connection, { actual: "arrived", desired: "desired", into: "missing" });
  const missing = await connection.rows<{ action: string; kind: string; name: string }>(
    "SELECT action, kind, name FROM missing ORDER BY kind, name LIMIT 20",
  );
  const lost = await connection.rows<{ type: string; name: string }>(`
    SELECT type, name FROM actual_foreign ANTI JOIN arrived_foreign USING (type, name) ORDER BY type, name LIMIT 20`);
  const problems = [
    ...differences,
    ...missing.map(({ action, kind, name }) => `still to ${action}: ${kind} ${name}`),
    ...lost.map(({ type, name }) => `gone, although it was in the list: ${visible(type)} ${formatName(name)}`),
  ];
  if (problems.length === 0) return tag;
  throw new HeldError(
    `target ${target.name}: the list was applied, but the target is not what was planned. Somebody else may be changing it; plan again to see what is left`,
    problems,
    "verification",
  );
}
