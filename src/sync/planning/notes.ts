import { messageOf } from "#errors.ts";
import type { LimitCheck, Measure } from "#plan/limits.ts";
import { counted } from "#text.ts";
import { departureNotes } from "./departure-notes.ts";
import type { Desired } from "./desired.ts";
import { about, unnamed } from "./note.ts";
import type { Note } from "./note.ts";

/** What limits say of the plan of a sync. */
interface Limited {
  readonly sync: string;
  readonly limits: readonly LimitCheck[];
  readonly waiting: readonly Measure[];
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
}: Desired & Partial<Limited>): Note[] {
  const notes: Note[] = [];
  if (waiting.length > 0) notes.push(waitingNote({ sync, limits, waiting }));
  if (unchangedSince !== undefined)
    notes.push(`sources unchanged since ${unchangedSince.toISOString()}, and not read again (fullReadEvery)`);
  for (const { name, error } of assembly.unread) {
    notes.push(`source ${name} could not be read, which it may (optional): what came from it stays as it is`);
    notes.push(`  ${messageOf(error)}`);
  }
  if (frozen.unread > 0)
    notes.push(`${counted(frozen.unread, "principal")} of the target left alone: the source could not be read`);
  if (assembly.quarantined.count > 0) {
    notes.push(
      `${counted(assembly.quarantined.count, "record")} quarantined: what the target has of them stays as it is`,
    );
    for (const finding of assembly.quarantined.examples) {
      const { kind, name, sourceId, origin, reason } = finding;
      notes.push(about(kind, [name ?? sourceId], `  ${kind} ${name ?? sourceId} (${origin}): ${reason}`));
    }
    notes.push(...unnamed(assembly.quarantined));
  }
  for (const each of assembly.neverSet) notes.push(`rule ${each} is set in no record: is that the attribute's name?`);
  if (assembly.unresolved.count > 0) {
    notes.push(`${counted(assembly.unresolved.count, "membership")} left out: the group or the member is not in scope`);
    for (const example of assembly.unresolved.examples) notes.push(`  ${example}`);
    notes.push(...unnamed(assembly.unresolved));
  }
  notes.push(...departureNotes(departures, sync));
  if (frozen.withheld > 0)
    notes.push(`${counted(frozen.withheld, "record")} withheld: the name is protected in the target`);
  if (frozen.unmanaged > 0)
    notes.push(`${counted(frozen.unmanaged, "principal")} of the target left alone: not owned by this sync`);
  return notes;
}

/** What a limit has left out of a plan, and how a person lets it pass. */
function waitingNote({ sync, limits, waiting }: Limited): string {
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
