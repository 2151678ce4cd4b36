import type { RunRecord } from "#sync/record.ts";

/** How much of the past is kept. */
export interface Retention {
  /** How long a run is remembered after it has ended, in milliseconds. */
  readonly keep: number;
  /** How many runs are remembered at most. */
  readonly runs: number;
  /** Of how many runs the changes and the list are kept at most. */
  readonly lists: number;
}

/**
 * The runs that stay, oldest first, with `kept` taken from those whose lists go. What is under way, or can still be
 * approved, stays whatever its age; of the rest those without a change go first.
 * @param now in epoch milliseconds
 * @returns `runs` itself when nothing goes
 */
export function retain(
  runs: readonly RunRecord[],
  { keep, runs: most, lists }: Retention,
  now: number,
): readonly RunRecord[] {
  const old = ({ endedAt, startedAt }: RunRecord): boolean => Date.parse(endedAt ?? startedAt) < now - keep;
  const young = runs.filter((run) => isOpen(run) || !old(run));
  const surplus = young.length - most;
  const leastOfUse = [
    ...young.filter((run) => run.state === "no change"),
    ...young.filter((run) => run.state !== "no change" && !isOpen(run)),
  ];
  const going = new Set(leastOfUse.slice(0, Math.max(0, surplus)));
  const staying = young.filter((run) => !going.has(run));
  const withLists = staying.filter((run) => run.kept && !isOpen(run));
  const losing = new Set(withLists.slice(0, Math.max(0, withLists.length - lists)));
  if (staying.length === runs.length && losing.size === 0) return runs;
  return staying.map((run) => (losing.has(run) ? Object.assign({}, run, { kept: false }) : run));
}

/** Under way, still to be approved, or its end still to be found out. */
function isOpen({ state, expiresAt, endUnknown }: RunRecord): boolean {
  return (
    state === "running" || endUnknown === true || state === "pending" || (state === "held" && expiresAt !== undefined)
  );
}
