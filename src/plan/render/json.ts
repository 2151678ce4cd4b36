import type { Plan } from "#plan/change.ts";
import type { LimitCheck } from "#plan/limits.ts";
import { inChunks } from "./shared.ts";

/**
 * A plan as one JSON document, without a newline at its end, every change on a line of its own:
 *
 *     {"digest": "<SHA-256 in hexadecimal>",
 *      "counts": {
 *        "users": {"before": 2, "after": 2, "create": 1, "update": 0, "delete": 1, "suspend"?: 0, "reactivate"?: 0},
 *        "groups": {…the same},
 *        "membershipsAdded": 1, "membershipsRemoved": 0},
 *      "shown"?: {…the same as counts, where only some of the changes are in "changes"},
 *      "limits"?: [
 *        {"limit": "deletes", "of": "users", "value": 1, "earlier": 0, "bound": 10, "basis": "10% of 100",
 *         "groups"?: [{"name": "staff", "lost": 40, "members": 50}], "tripped": false, "overridden": false}],
 *      "changes": [
 *        {"action": "create" | "update" | "suspend" | "reactivate" | "delete", "kind": "user" | "group", "name": "ada",
 *         "attributes": [{"attribute": "displayName", "from"?: "…", "to"?: "…"}],
 *         "groupsAdded": ["staff"], "groupsRemoved": []}]}
 *
 * `from` is absent where the attribute was unset, `to` where it is cleared. Changes come in the order of
 * `Plan.changes`: groups before users; create, update, suspend, reactivate, delete; by name. `suspend` and `reactivate` are there
 * where the target can suspend users. Keys may be added, never renamed or removed.
 */
export function renderJson(plan: Plan, limits?: readonly LimitCheck[]): AsyncIterable<string> {
  return inChunks(pieces(plan, limits));
}

async function* pieces(plan: Plan, limits?: readonly LimitCheck[]): AsyncIterable<string> {
  const { digest, counts, shown } = plan;
  yield `{"digest":${JSON.stringify(digest)},"counts":${JSON.stringify(counts)},`;
  if (shown !== undefined) yield `"shown":${JSON.stringify(shown)},`;
  if (limits !== undefined) yield `"limits":${escaped(JSON.stringify(limits))},`;
  yield '"changes":[';
  let separator = "\n";
  for await (const change of plan.changes()) {
    yield separator + escaped(JSON.stringify(change));
    separator = ",\n";
  }
  yield "]}";
}

/** The same JSON with control and invisible characters escaped; these only occur in strings. */
function escaped(json: string): string {
  return json.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) =>
    Array.from(
      { length: character.length },
      (_, unit) => `\\u${character.charCodeAt(unit).toString(16).padStart(4, "0")}`,
    ).join(""),
  );
}
