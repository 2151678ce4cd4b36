import { command } from "#commands.ts";
import { shortDigest } from "#plan/change.ts";
import type { Action, AttributeChange, Change } from "#plan/change.ts";
import type { Connection } from "#duckdb/database.ts";
import { literal } from "#duckdb/database.ts";
import { isExceeded, measures } from "#plan/limits.ts";
import { concernsWhole } from "#plan/selection.ts";
import type { LimitCheck, Measure } from "#plan/limits.ts";
import type { Kind } from "#principals/principal.ts";
import { isOpen } from "#state/record.ts";
import { trippedLimits } from "#sync/coordinator/refusals.ts";
import type { RunRecord } from "#state/record.ts";
import type { ApprovalPolicy } from "#sync/context.ts";
import type { Plans } from "#state/plans.ts";

/** Why a change of a principal waits, and how a person gets it applied. */
export interface Wait {
  /**
   * `held`: limits stop the whole run. `left out`: limits take the change out of the plan, and the rest is applied.
   * `pending`: a person must approve the plan.
   */
  readonly how: "held" | "left out" | "pending";
  /** The tripped limits; for a change that is left out, the limits that cause it. */
  readonly limits: readonly LimitCheck[];
  /** Why a person must approve it. */
  readonly reason?: string;
  /** Since when such changes wait, ISO 8601; absent: no run has found them yet. */
  readonly since?: string;
  /** The run that can be approved, and its action for the principal. */
  readonly run?: string;
  readonly action?: Action;
  /** Until when, ISO 8601. */
  readonly expiresAt?: string;
  /** The commands to look at it and to get it applied. */
  readonly next: readonly string[];
}

/** The limits, the approval policy and the runs of a sync. */
export interface Status {
  readonly sync: string;
  readonly action: "hold" | "apply-the-rest";
  readonly approval: ApprovalPolicy;
  /** Why every run needs approval at the moment, whatever `approval` says. */
  readonly caution?: string;
  /** The limits of a plan made now. */
  readonly checks: readonly LimitCheck[];
  readonly waiting: readonly Measure[];
  /** The digest of the whole plan, with nothing left out. */
  readonly digest: string;
  /** The runs of the sync, the newest first. */
  readonly runs: readonly RunRecord[];
}

/**
 * Why a change waits that a run would find now; undefined: the next run makes it.
 * @param rest what the limits leave of the change; absent: nothing
 */
export function waitOf(change: Change, rest: Change | undefined, status: Status): Wait | undefined {
  const { sync, action, approval, caution, checks, waiting, digest, runs } = status;
  const tripped = checks.filter(isExceeded);
  const override = ["--override", namesOf(tripped).join(",")];
  if (action === "apply-the-rest") {
    const limits = limitsFor(causesOf(change, rest), waiting, tripped);
    if (limits.length > 0) {
      const since = sinceWhen(runs, (run) => run.waiting.some((measure) => waiting.includes(measure)));
      const next = laterCommands(sync, override, digest);
      return { how: "left out", limits, ...since, next };
    }
  }
  const whole = tripped.filter(({ limit }) => action === "hold" || concernsWhole(limit));
  const isBeyond = whole.length > 0;
  const isAsked = approval === "required" || caution !== undefined;
  if (!isBeyond && !isAsked) return undefined;
  // Beyond its limits, a plan waits for approval only if the policy or an expectation says so.
  const holds = whole.some(({ otherwise }) => otherwise !== "approve");
  const isHeld = holds && (isAsked || approval === "automatic");
  const asking = approval === "automatic" ? "an expectation asks for it" : `approval: ${approval}`;
  const open = runs.find((run) => isOpen(run) && run.digest === digest && run.undoes === undefined);
  return {
    how: isHeld ? "held" : "pending",
    limits: whole,
    reason: isHeld ? undefined : (caution ?? asking),
    ...(open && openFacts(open, change.action, runs)),
    next: open === undefined ? laterCommands(sync, isBeyond ? override : [], digest) : commandsOf(open),
  };
}

/** Why the change waits that an open run has planned for a principal. */
export function waitOfRun(run: RunRecord, action: Action, runs: readonly RunRecord[]): Wait {
  const held = run.state === "held";
  return {
    how: held ? "held" : "pending",
    limits: run.limits.filter(isExceeded),
    ...openFacts(run, action, runs),
    next: commandsOf(run),
  };
}

function openFacts(
  { id, expiresAt, startedAt, undoes }: RunRecord,
  action: Action,
  runs: readonly RunRecord[],
): Pick<Wait, "since" | "run" | "action" | "expiresAt"> {
  const since = undoes === undefined ? sinceWhen(runs, hasWaited) : { since: startedAt };
  return { ...since, run: id, action, expiresAt };
}

function hasWaited(run: RunRecord): boolean {
  return isOpen(run) || run.state === "superseded" || run.state === "expired";
}

/** The commands for an open run. */
function commandsOf(run: RunRecord): string[] {
  const beyond = run.state === "held" ? trippedLimits(run) : [];
  const override = beyond.length === 0 ? [] : ["--override", beyond.join(",")];
  return [command("show", run.id), command("approve", run.id, ...override)];
}

/** The commands if no open run has the change. */
function laterCommands(sync: string, override: readonly string[], digest: string): string[] {
  return [command("plan", sync, ...override), command("apply", sync, ...override, "--digest", shortDigest(digest))];
}

/** When the unbroken series of the newest runs that count began. Failed runs are ignored. */
function sinceWhen(runs: readonly RunRecord[], counts: (run: RunRecord) => boolean): Pick<Wait, "since"> {
  let since: string | undefined;
  for (const run of runs) {
    if (run.state === "failed" || run.state === "running" || run.undoes !== undefined || run.for !== undefined)
      continue;
    if (!counts(run)) break;
    since = run.startedAt;
  }
  return { since };
}

const lossOfMemberships = ["updates", "membershipsLost", "membershipsLost.perGroup", "emptied", "deletes"] as const;

/** The measures that can cause the missing part of a change. */
function causesOf(change: Change, rest: Change | undefined): Measure[] {
  const { action, kind } = change;
  if (rest === undefined && action === "create") return ["creates"];
  // No group is deleted while memberships must not be lost.
  if (rest === undefined && action === "delete")
    return kind === "user" ? ["deletes", "emptied"] : ["deletes", "updates", "membershipsLost", "emptied"];
  const attributes = change.attributes.filter(
    ({ attribute }) => rest?.attributes.some((each) => each.attribute === attribute) !== true,
  );
  const causes = new Set<Measure>();
  const isSuspension = (each: AttributeChange): boolean => action === "suspend" && each.attribute === "active";
  if (attributes.some(isSuspension)) causes.add("suspends");
  if (attributes.some((each) => !isSuspension(each))) causes.add("updates");
  if (attributes.some(({ to }) => to === undefined)) causes.add("blanked");
  if (isMissing(change.groupsAdded, rest?.groupsAdded)) causes.add("updates").add("creates");
  if (isMissing(change.groupsRemoved, rest?.groupsRemoved)) for (const cause of lossOfMemberships) causes.add(cause);
  return [...causes];
}

function isMissing(groups: readonly string[], left: readonly string[] = []): boolean {
  return groups.some((group) => !left.includes(group));
}

/** The limits that cause these measures to wait. A limit on the size of a source concerns everything that is taken away. */
function limitsFor(
  causes: readonly Measure[],
  waiting: readonly Measure[],
  tripped: readonly LimitCheck[],
): LimitCheck[] {
  const because: ReadonlySet<string> = new Set(causes.filter((cause) => waiting.includes(cause)));
  const takesAway = because.has("deletes") || because.has("suspends") || because.has("membershipsLost");
  return tripped.filter(({ limit }) =>
    (measures as readonly string[]).includes(limit) ? because.has(limit) : takesAway,
  );
}

function namesOf(checks: readonly LimitCheck[]): string[] {
  return [...new Set(checks.map(({ limit }) => limit))];
}

/** What the open runs of a sync would do with a principal, as far as their plans are stored. */
export async function plannedOf(
  connection: Connection,
  store: Plans,
  open: readonly RunRecord[],
  { kind, name }: { readonly kind: Kind; readonly name: string },
): Promise<{ readonly run: RunRecord; readonly action: Action }[]> {
  const found: { run: RunRecord; action: Action }[] = [];
  for (const run of open) {
    const file = literal(store.file(run.id, "changes"));
    // The daemon may remove it meanwhile.
    const [row] = await connection
      .rows<{ action: Action }>(
        `SELECT action::VARCHAR AS action FROM read_parquet(${file}) WHERE kind::VARCHAR = ? AND name = ?`,
        [kind, name],
      )
      .catch(() => []);
    if (row !== undefined) found.push({ run, action: row.action });
  }
  return found;
}
