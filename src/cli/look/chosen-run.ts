import { InputError } from "#errors.ts";
import { quoteIfNeeded } from "#text.ts";
import type { RunRecord } from "#sync/record.ts";

/**
 * The run that a person means: by the beginning of its id, or of what follows the time in it, if that names one alone;
 * `latest`, `latest:SYNC` or `pending`.
 * @param runs the newest first
 * @throws {InputError} when it is none, or it could be several
 */
export function chosenRun(runs: readonly RunRecord[], wanted: string): RunRecord {
  const found = candidates(runs, wanted);
  const [run, another] = found;
  if (run === undefined) throw new InputError(`${missing(runs, wanted)}: \`rollcall runs\` lists those that are known`);
  if (another === undefined) return run;
  const names = found.slice(0, 5).map(({ id, sync }) => `${id} (${sync})`);
  const rest = found.length > names.length ? ` and ${found.length - names.length} more` : "";
  throw new InputError(`${quoteIfNeeded(wanted)} could be several runs: ${names.join(", ")}${rest}`);
}

function candidates(runs: readonly RunRecord[], wanted: string): readonly RunRecord[] {
  if (wanted === "pending") return runs.filter(({ state }) => state === "pending");
  if (wanted === "latest") return runs.slice(0, 1);
  if (wanted.startsWith("latest:")) return runs.filter(({ sync }) => `latest:${sync}` === wanted).slice(0, 1);
  if (wanted === "") return [];
  const exact = runs.filter(({ id }) => id === wanted);
  if (exact.length > 0) return exact;
  const byStart = runs.filter(({ id }) => id.startsWith(wanted));
  return byStart.length > 0 ? byStart : runs.filter(({ id }) => (id.split("-", 3)[2] ?? "").startsWith(wanted));
}

function missing(runs: readonly RunRecord[], wanted: string): string {
  if (runs.length === 0) return "there has been no run yet";
  if (wanted === "pending") return "no run awaits approval";
  if (wanted.startsWith("latest:")) return `there is no run of a sync called ${quoteIfNeeded(wanted.slice(7))}`;
  return `there is no run ${quoteIfNeeded(wanted)}`;
}
