import type { AuditEntry } from "#state/audit/entry.ts";
import { idAfter } from "#state/runs.ts";
import type { Decision, RunRecord } from "#state/record.ts";
import { areSeveral } from "./approvals.ts";
import { timestamp } from "./context.ts";
import type { Context } from "./context.ts";
import type { Begun, RunRequest, Watcher } from "./coordinator.ts";
import { start } from "./execute.ts";
import { expire } from "./finish.ts";

export async function begin(
  context: Context,
  { sync, cause, by, slot, digest, overrides = [], for: people }: RunRequest,
  watcher?: Watcher,
): Promise<Begun> {
  const settings = context.settingsOf(sync);
  await expire(context);
  const approved: Decision[] =
    digest === undefined
      ? []
      : [{ decision: "approved", at: timestamp(context), by, digest, overrides: unlessEmpty(overrides) }];
  const shared = areSeveral(settings.approvers);
  // Who names a plan approves it, which may not be enough; or may not count, since they ask for the run, too.
  const given = settings.approvers.notTheRequester ? [] : approved;
  const { caution } = context.store.journal.state(sync);
  const isCautious = caution !== undefined && settings.approval !== "required" && digest === undefined;
  const reason = isCautious ? caution.reason : undefined;
  const begun = newRun(context, sync, {
    cause,
    by,
    slot,
    decisions: shared ? [] : approved,
    caution: reason,
    for: people,
  });
  const run = shared && given.length > 0 ? { ...begun, approvals: given } : begun;
  const of = { by, sync, run: run.id };
  const entries: AuditEntry[] = cause === "demand" ? [{ event: "asked", ...of, cause, digest, for: people }] : [];
  if (digest !== undefined && overrides.length > 0) entries.push({ event: "overridden", ...of, digest, overrides });
  const options = {
    approval: caution === undefined ? settings.approval : "required",
    settings,
    approvers: shared ? { ...settings.approvers, given: given.length } : undefined,
    digest,
    overrides,
    storeAs: run.id,
    notes: reason === undefined ? [] : [{ text: `${reason}: every run needs approval until one is approved` }],
  } as const;
  return start(context, run, options, entries, watcher);
}

/** The record of a run that begins now. */
export function newRun(
  context: Context,
  sync: string,
  rest: Pick<RunRecord, "cause" | "by" | "slot" | "undoes" | "decisions" | "caution" | "for">,
): RunRecord {
  const { target, place } = context.settingsOf(sync);
  return {
    id: idAfter(context.store.journal.runs.at(-1)?.id, context.now()),
    sync,
    target,
    place,
    startedAt: timestamp(context),
    state: "running",
    stages: [],
    limits: [],
    waiting: [],
    notes: [],
    kept: false,
    ...rest,
  };
}

function unlessEmpty<Item>(items: readonly Item[]): readonly Item[] | undefined {
  return items.length === 0 ? undefined : items;
}
