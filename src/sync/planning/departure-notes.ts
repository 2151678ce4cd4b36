import type { Departures } from "#plan/departures.ts";
import { counted, quoteIfNeeded } from "#text.ts";
import { about, unnamed } from "./note.ts";
import type { Note } from "./note.ts";

/** What is said of those who leave later or never, and of changed names: a line each, examples below it. */
export function departureNotes({ renames, reused, kept, leaving }: Departures, sync: string): Note[] {
  const notes: Note[] = [];
  if (renames.count > 0) {
    notes.push(
      `${counted(renames.count, "rename")}: the same record has another name now. The interface has no renames: the old one is deleted, and ` +
        "a new one created, without its password and what was given to its name; memberships in groups of others go along",
    );
    for (const { kind, from, to, source, sourceId, held } of renames.examples) {
      const waits = held ? "; it keeps its name for now" : "";
      notes.push(
        about(
          kind,
          [from, to],
          `  ${kind} ${quoteIfNeeded(from)} is now ${quoteIfNeeded(to)} (${source} ${quoteIfNeeded(sourceId)})${waits}`,
        ),
      );
    }
    notes.push(...unnamed(renames));
    if (renames.examples.some(({ held }) => held))
      notes.push(
        `  what is held by renames: hold is applied with --override renames: rollcall plan ${sync} --override renames`,
      );
  }
  if (reused.count > 0) {
    const waits = reused.examples.some(({ held }) => held);
    notes.push(
      `${counted(reused.count, "name")} of another record now: somebody else, who would get the password and what was given to the name. ` +
        (waits
          ? `They stay as they are; to take them over: rollcall plan ${sync} --override reusedNames`
          : "They are taken over"),
    );
    for (const { kind, name, source, was, is } of reused.examples)
      notes.push(
        about(
          kind,
          [name],
          `  ${kind} ${quoteIfNeeded(name)}: ${source} ${quoteIfNeeded(was)} before, ${quoteIfNeeded(is)} now`,
        ),
      );
    notes.push(...unnamed(reused));
  }
  if (kept.count > 0) {
    notes.push(`${counted(kept.count, "principal")} gone from the sources, and never deleted by a sync:`);
    for (const { kind, name, because } of kept.examples) {
      const why = because === "administrator" ? "an administrator" : "a protected group would have no member left";
      notes.push(about(kind, [name], `  ${kind} ${quoteIfNeeded(name)}: ${why}`));
    }
    notes.push(...unnamed(kept));
  }
  if (leaving.count > 0) {
    notes.push(`${counted(leaving.count, "principal")} gone from the sources, staying for now (deletions.after):`);
    for (const { kind, name, on } of leaving.examples)
      notes.push(about(kind, [name], `  ${kind} ${quoteIfNeeded(name)} is leaving on ${on}`));
    notes.push(...unnamed(leaving));
  }
  return notes;
}
