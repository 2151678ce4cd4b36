import type { Workbench } from "#duckdb/workbench.ts";
import { HeldError } from "#errors.ts";
import type { Plan } from "#plan/change.ts";
import { createChanges } from "#plan/diff.ts";
import { writePrincipals } from "#plan/lists.ts";
import { listTarget } from "#sync/planning/desired.ts";
import { formatName, visible } from "#text.ts";
import type { Target } from "./ports.ts";
import { passwordOf } from "./sync.ts";
import type { Sync } from "./sync.ts";

/**
 * Writes the list, and returns what sends it: the preview and the apply send the same one. If the plan deletes nothing,
 * the apply may not delete either: what somebody else has created in the target since it was listed stays.
 */
export async function prepareList(
  sync: Sync,
  workbench: Workbench,
  { counts }: Plan,
  sending: (() => void) | undefined,
): Promise<(applyChanges: boolean, signal: AbortSignal) => Promise<string>> {
  const principals = workbench.file("desired.json");
  await writePrincipals(workbench.connection, principals);
  const defaultPassword = passwordOf(sync);
  return async (applyChanges, signal) => {
    const answer = workbench.file(applyChanges ? "applied.json" : "preview.json");
    const deleteOthers = !applyChanges || counts.users.delete + counts.groups.delete > 0;
    const watched = applyChanges ? { sending } : {};
    // The target is often a service in this process.
    await workbench.makeRoom();
    await sync.target.sync({ principals, applyChanges, deleteOthers, defaultPassword, ...watched }, answer, signal);
    return answer;
  };
}

/**
 * Lists the target again: it must be what was desired.
 * @returns the entity tag of that list; undefined where the target gives none
 * @param differences between the plan and what the service says it did
 * @throws {HeldError} when it is not
 */
export async function verify(
  target: Target,
  workbench: Workbench,
  differences: readonly string[],
  signal: AbortSignal,
): Promise<string | undefined> {
  const { connection } = workbench;
  await workbench.makeRoom();
  const tag = await listTarget(target, workbench, "arrived", signal);
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
