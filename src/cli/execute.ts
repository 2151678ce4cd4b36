import { messageOf } from "#errors.ts";
import type { Overridable, Measure } from "#plan/limits.ts";
import type { Desired } from "#sync/desired.ts";
import { run } from "#sync/run.ts";
import type { Report, RunResult } from "#sync/run.ts";
import type { Stage } from "#sync/sync.ts";
import { daemonFolder } from "./context.ts";
import type { Context } from "./context.ts";
import { departureNotes } from "./departure-notes.ts";
import { exportRecord } from "./export-record.ts";
import { openSync } from "./open-sync.ts";

const doing: Record<Stage, string> = {
  read: "reading the sources",
  list: "listing the target",
  plan: "planning",
  preview: "asking the service for its preview",
  apply: "applying",
  verify: "verifying",
};

export interface Execution {
  readonly apply: boolean;
  readonly digest?: string;
  readonly overrides?: readonly Overridable[];
  readonly report?: (report: Report) => Promise<void>;
  readonly warn: (message: string) => void;
}

/** Runs one sync of the configuration, with progress on the terminal. */
export async function execute(context: Context, name: string, execution: Execution): Promise<RunResult> {
  const { configuration, output } = context;
  const sync = await openSync(configuration, name, context.embedded, context.observe);
  const progress = progressOf(context, name);
  try {
    return await run(sync, {
      ...execution,
      folder: daemonFolder(configuration),
      memory: configuration.memory,
      interruption: context.interruption,
      progress: (stage, records) => {
        // From here on the tables of an export are behind, whatever becomes of this run.
        if (stage === "apply") exportRecord(configuration, sync.place).invalidate();
        progress(stage, records);
      },
    });
  } finally {
    output.progress();
    await sync.target.close();
  }
}

/** Shows on the terminal what is being done. */
export function progressOf(
  { log, output }: Pick<Context, "log" | "output">,
  name: string,
): (stage: Stage, records?: number) => void {
  return (stage, records) => {
    if (records === undefined) log.debug({ sync: name, stage }, `sync ${name}: ${doing[stage]}`);
    output.progress(
      `${name}: ${doing[stage]}${records === undefined ? "" : ` (${records.toLocaleString("en")} records)`} …`,
    );
  };
}

/** What a person should know beside the changes: what was left out, left alone or not understood. One line each. */
export function notesOf({
  assembly,
  frozen,
  departures,
  unchangedSince,
  sync = "",
  limits = [],
  waiting = [],
}: Desired & Partial<Report>): string[] {
  const notes: string[] = [];
  if (waiting.length > 0) notes.push(waitingNote({ sync, limits, waiting }));
  if (unchangedSince !== undefined)
    notes.push(`sources unchanged since ${unchangedSince.toISOString()}, and not read again (fullReadEvery)`);
  for (const { name, error } of assembly.unread) {
    notes.push(`source ${name} could not be read, which it may (optional): what came from it stays as it is`);
    notes.push(`  ${messageOf(error)}`);
  }
  if (frozen.unread > 0)
    notes.push(`${count(frozen.unread, "principal")} of the target left alone: the source could not be read`);
  if (assembly.quarantined.count > 0) {
    notes.push(
      `${count(assembly.quarantined.count, "record")} quarantined: what the target has of them stays as it is`,
    );
    for (const finding of assembly.quarantined.examples) {
      notes.push(`  ${finding.kind} ${finding.name ?? finding.sourceId} (${finding.origin}): ${finding.reason}`);
    }
  }
  for (const each of assembly.neverSet) notes.push(`rule ${each} is set in no record: is that the attribute's name?`);
  if (assembly.unresolved.count > 0) {
    notes.push(`${count(assembly.unresolved.count, "membership")} left out: the group or the member is not in scope`);
    for (const example of assembly.unresolved.examples) notes.push(`  ${example}`);
  }
  notes.push(...departureNotes(departures, sync));
  if (frozen.withheld > 0)
    notes.push(`${count(frozen.withheld, "record")} withheld: the name is protected in the target`);
  if (frozen.unmanaged > 0)
    notes.push(`${count(frozen.unmanaged, "principal")} of the target left alone: not owned by this sync`);
  return notes;
}

/** What a limit has left out of a plan, and how a person lets it pass. */
export function waitingNote({ sync, limits, waiting }: Pick<Report, "sync" | "limits" | "waiting">): string {
  const names = new Set(limits.filter(({ tripped }) => tripped).map(({ limit }) => limit));
  return (
    `because of the limits, these wait: ${waiting.map((each) => waitingWords[each]).join(", ")}; the rest goes on. ` +
    `What it would be with them: rollcall plan ${sync} --override ${[...names].join(",")}`
  );
}

const waitingWords: Record<Measure, string> = {
  deletes: "deletions",
  updates: "changes of who is there",
  creates: "creations",
  membershipsLost: "losses of memberships",
  blanked: "attributes that become empty",
};

function count(number: number, what: string): string {
  return `${number.toLocaleString("en")} ${number === 1 ? what : `${what}s`}`;
}
