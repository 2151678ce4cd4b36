import { command, forOptions } from "#commands.ts";
import { messageOf } from "#errors.ts";
import type { Departures, Kept } from "#plan/departures.ts";
import type { Foreign } from "#plan/carried.ts";
import type { DriftLeft } from "#plan/drift.ts";
import type { LimitCheck, Measure } from "#plan/limits.ts";
import type { Subject } from "#plan/selection.ts";
import type { Quarantined, QuarantineReason } from "#principals/assembly.ts";
import type { Numbered } from "#principals/names.ts";
import type { Kind } from "#principals/principal.ts";
import type { CutLists, Unresolved } from "#principals/references.ts";
import type { Unlisted } from "#principals/scope.ts";
import type { NoteSubject, RunRecord } from "#state/record.ts";
import { pluralize, formatNumber, formatName, formatPrincipals, shortName } from "#text.ts";
import type { Desired } from "./desired.ts";

/** What the limits make of the plan of a sync. */
interface Limited {
  readonly sync: string;
  readonly limits: readonly LimitCheck[];
  readonly waiting: readonly Measure[];
  /** What stays as somebody made it in the target. */
  readonly drift?: DriftLeft | undefined;
  /** Whom the run is for; absent: everybody. */
  readonly for?: readonly string[] | undefined;
}

/** What a person should know besides the changes: what was left out, left alone or not understood. One line each. */
export function notesOf({
  assembly,
  frozen,
  notOwned,
  byHand,
  departures,
  foreign,
  cutLists,
  unchangedSince,
  sync = "",
  limits = [],
  waiting = [],
  drift,
}: Desired & Partial<Limited>): Note[] {
  const notes: Note[] = [];
  if (waiting.length > 0) notes.push(waitingNote({ sync, limits, waiting }));
  if (unchangedSince !== undefined)
    notes.push(`sources unchanged since ${unchangedSince.toISOString()}, and not read again (fullReadEvery)`);
  notes.push(...unreadNotes(assembly.unread));
  if (frozen.unread > 0)
    notes.push(`${pluralize(frozen.unread, "principal")} of the target left alone: the source could not be read`);
  if (assembly.unlisted !== undefined) notes.push(...unlistedNotes(assembly.unlisted));
  notes.push(...quarantineNotes(assembly.quarantined));
  notes.push(...numberedNotes(assembly.numbered));
  for (const each of assembly.neverSet) notes.push(`rule ${each} is set in no record: is that the attribute's name?`);
  notes.push(...unresolvedNotes(assembly.unresolved));
  notes.push(...cutLists.map(cutNote));
  notes.push(...departureNotes(departures, sync));
  notes.push(...driftNotes(drift));
  notes.push(...byHandNotes(byHand));
  notes.push(...notOwnedNotes(notOwned));
  if (frozen.withheld > 0)
    notes.push(`${pluralize(frozen.withheld, "record")} withheld: the name is protected in the target`);
  if (frozen.unmanaged > 0)
    notes.push(`${pluralize(frozen.unmanaged, "principal")} of the target left alone: not owned by this sync`);
  notes.push(...foreignNotes(foreign));
  return notes;
}

/** The most types that a note names. */
const mostTypes = 5;

/** What the target has as other types, and whose names that takes. */
function foreignNotes({ types, taken }: Foreign): Note[] {
  const notes: Note[] = [];
  const count = types.reduce((sum, each) => sum + each.count, 0);
  if (taken.count > 0) {
    notes.push(`${pluralize(taken.count, "record")} withheld: the target has the name as another type`);
    for (const { kind, name, type } of taken.examples)
      notes.push(noteAbout(kind, [name], `  ${kind} ${formatName(name)}: ${formatName(type)}`));
    notes.push(...andMore(taken));
  }
  if (count > 0) {
    const named = types.slice(0, mostTypes).map((each) => `${formatNumber(each.count)} ${formatName(each.type)}`);
    const more = types.length > mostTypes ? [`${formatNumber(types.length - mostTypes)} more types`] : [];
    notes.push(
      `${pluralize(count, "principal")} of other types left as the target has them: ${[...named, ...more].join(", ")}`,
    );
  }
  return notes;
}

/** Memberships that somebody added in the target. */
function byHandNotes({ kept, undecided }: Desired["byHand"]): Note[] {
  const notes: Note[] = [];
  if (kept.count > 0)
    notes.push(
      `kept by hand: ${pluralize(kept.count, "membership")} that somebody added in the target (memberships.keepManual)`,
      ...kept.examples.map(({ kind, name, group }) =>
        noteAbout(kind, [name], `  ${kind} ${formatName(name)} in ${formatName(group)}`),
      ),
      ...andMore(kept),
    );
  if (undecided > 0)
    notes.push(
      `${pluralize(undecided, "membership")} taken back that somebody may have added by hand: what the last run gave is not known`,
    );
  return notes;
}

/** Groups that rules name and that are somebody else's. */
function notOwnedNotes(found: Desired["notOwned"]): Note[] {
  if (found.count === 0) return [];
  const [groups, get] = found.count === 1 ? ["1 group", "gets"] : [pluralize(found.count, "group"), "get"];
  return [
    `${groups} of the target that rules name ${get} members and nothing else: not owned by this sync (to own one, list it under staticGroups)`,
    ...found.examples.map((name) => noteAbout("group", [name], `  group ${formatName(name)}`)),
    ...andMore(found),
  ];
}

/** The notes of a plan that is about some alone: what is about them, and what may be. */
export function notesAbout(subjects: readonly Subject[], facts: Desired & Limited): Note[] {
  const isAbout = (note: Note): boolean =>
    typeof note !== "string" && subjects.some(({ kind, name }) => kind === note.kind && note.names.includes(name));
  const { assembly } = facts;
  return [
    ...(facts.waiting.length > 0 ? [waitingNote(facts)] : []),
    ...unreadNotes(assembly.unread),
    ...notesOf(facts).filter(isAbout),
  ];
}

function unlistedNotes({ users, groups, lists }: Unlisted): string[] {
  if (users + groups === 0) return [];
  return [`${formatPrincipals(users, groups)} of the sources not in scope (${lists.join(", ")})`];
}

/** What stays as somebody made it in the target, and why. */
export function driftNotes({ left, ignored }: DriftLeft = { left: 0, ignored: 0 }): string[] {
  const found = [
    [left, "drift: leave"],
    [ignored, "drift.ignore"],
  ] as const;
  return found.flatMap(([count, why]) =>
    count === 0 ? [] : [`${pluralize(count, "principal")} left as somebody changed them in the target (${why})`],
  );
}

function unreadNotes(unread: Desired["assembly"]["unread"]): string[] {
  return unread.flatMap(({ name, error }) => [
    `source ${name} could not be read (it is optional): what came from it stays as it is`,
    `  ${messageOf(error)}`,
  ]);
}

/** Who gets another name than the rule says. */
function numberedNotes(numbered: Numbered | undefined): Note[] {
  if (numbered === undefined || numbered.count === 0) return [];
  const { count, examples } = numbered;
  return [
    `${pluralize(count, "new principal")} with another name, since theirs is taken (unique):`,
    ...examples.map(({ kind, name, base }) =>
      noteAbout(kind, [name], `  ${kind} ${shortName(base)} becomes ${shortName(name)}`),
    ),
    ...andMore(numbered),
  ];
}

/** What a run was not sure of: records that are quarantined, memberships that lead nowhere. */
export const doubtKinds = ["quarantined", "memberships"] as const;
export type DoubtKind = (typeof doubtKinds)[number];

/** How the notes about them begin, after the number; below are the causes, a line each. */
const headings: Readonly<Record<DoubtKind, string>> = {
  quarantined: "quarantined: what the target has of them stays as it is",
  memberships: "left out: the group or the member is not in scope",
};

/** What the notes of a run say about one kind of doubt. */
export interface Doubt {
  readonly what: DoubtKind;
  /** How much, in a sentence. */
  readonly heading: string;
  /** The most frequent first: the cause with the first origins, and whom it is about, where the run knows. */
  readonly causes: readonly { readonly text: string; readonly kind?: Kind; readonly names: readonly string[] }[];
}

/** What is in doubt of quarantined records. */
export function doubtOfQuarantined(quarantined: Quarantined): Doubt | undefined {
  return doubtsOf(withSubjects(quarantineNotes(quarantined)))[0];
}

/** What a run was not sure of, by its notes. */
export function doubtsOf({ notes, subjects = [] }: Pick<RunRecord, "notes" | "subjects">): Doubt[] {
  return doubtKinds.flatMap((what) => {
    const first = notes.findIndex((note) => /^\d/.test(note) && note.endsWith(` ${headings[what]}`));
    const heading = notes[first];
    if (heading === undefined) return [];
    const below = notes.slice(first + 1);
    const end = below.findIndex((note) => !note.startsWith("  "));
    const causes = below.slice(0, end === -1 ? undefined : end).map((note, index) => {
      const about = subjects.find((subject) => subject.note === first + 1 + index);
      return { text: note.slice(2), kind: about?.kind, names: about?.names ?? [] };
    });
    return [{ what, heading, causes }];
  });
}

/** Why records are quarantined, the most frequent reasons first. */
export function quarantineNotes({ count, reasons, more }: Quarantined): Note[] {
  if (count === 0) return [];
  return [
    `${pluralize(count, "record")} ${headings.quarantined}`,
    ...reasons.map(quarantineNote),
    ...(more > 0 ? [`  … and ${formatNumber(more)} more for other reasons`] : []),
  ];
}

function quarantineNote({ reason, kind, count, examples }: QuarantineReason): Note {
  const names = [...new Set(examples.map(({ name, sourceId }) => name ?? sourceId))];
  if (count === 1) return noteAbout(kind, names, `  ${kind} ${names[0]} (${examples[0]?.origin}): ${reason}`);
  const isShared = names.length === 1;
  const listed = examples.map(({ name, sourceId, origin }) => (isShared ? origin : `${name ?? sourceId} (${origin})`));
  const first = count > examples.length ? "first " : "";
  return noteAbout(kind, names, `  ${reason}: ${pluralize(count, kind)}, ${first}${listed.join(", ")}`);
}

/** Why references make no membership, the most frequent reasons first. */
export function unresolvedNotes({ count, excluded, reasons, more }: Unresolved): Note[] {
  const lost = count - excluded;
  const notes: Note[] = [];
  if (lost > 0) notes.push(`${pluralize(lost, "membership")} ${headings.memberships}`);
  for (const { reason, count, origin } of reasons)
    notes.push(`  ${reason}: ${pluralize(count, "membership")}, first ${origin}`);
  if (more > 0) notes.push(`  … and ${formatNumber(more)} more for other reasons`);
  if (excluded > 0)
    notes.push(`${pluralize(excluded, "membership")} left out, since the rules exclude the group or the member`);
  return notes;
}

/** A server that cuts lists of members says success: only the sizes show it. */
function cutNote({ source, size, groups, names }: CutLists): string {
  const listed = names.map((name) => shortName(name)).join(", ");
  const which =
    groups === 1
      ? `group ${listed} has exactly ${formatNumber(size)} members and had more`
      : `the ${formatNumber(groups)} largest groups (${listed}${groups > names.length ? ", …" : ""}) have exactly ${formatNumber(size)} members each`;
  return `source ${source}: ${which}; does the server cut lists of members at ${formatNumber(size)}? Members beyond that would lose the group`;
}

/** What the limits have left out of a plan, and how to override them. */
function waitingNote({ sync, limits, waiting, for: names }: Limited): string {
  const tripped = new Set(limits.filter((each) => each.tripped).map(({ limit }) => limit));
  return (
    `because of the limits, these wait: ${waiting.map((each) => waitingWords[each]).join(", ")}; the rest goes on. ` +
    `The plan with them: \`${command("plan", sync, ...forOptions(names), "--override", [...tripped].join(","))}\``
  );
}

const waitingWords: Record<Measure, string> = {
  deletes: "deletions",
  updates: "changes of who is there",
  creates: "creations",
  membershipsLost: "losses of memberships",
  "membershipsLost.perGroup": "the members that single groups would lose",
  emptied: "the members of groups that would lose all",
  blanked: "attributes that become empty",
};

/** Notes on changed names and on those who leave later or never: a line for each, followed by examples. */
export function departureNotes({ renames, reused, adoptable = 0, kept, leaving }: Departures, sync: string): Note[] {
  const notes: Note[] = [];
  if (renames.count > 0) {
    notes.push(
      `${pluralize(renames.count, "rename")}: the same record has another name now. The interface has no renames: the old one is deleted, and ` +
        "a new one created, without its password and what was given to its name; memberships in groups of others go along",
    );
    for (const { kind, from, to, source, sourceId, held } of renames.examples) {
      const waits = held ? "; it keeps its name for now" : "";
      notes.push(
        noteAbout(
          kind,
          [from, to],
          `  ${kind} ${shortName(from)} is now ${shortName(to)} (${source} ${formatName(sourceId)})${waits}`,
        ),
      );
    }
    notes.push(...andMore(renames));
    if (renames.examples.some(({ held }) => held))
      notes.push(
        `  what \`renames: hold\` holds is applied with --override renames: \`${command("plan", sync, "--override", "renames")}\``,
      );
  }
  if (reused.count > 0) {
    const waits = reused.examples.some(({ held }) => held);
    notes.push(
      `${pluralize(reused.count, "name")} of another record now: somebody else, who would get the password and what was given to the name. ` +
        (waits
          ? `They stay as they are; to take them over: \`${command("plan", sync, "--override", "reusedNames")}\``
          : "They are taken over"),
    );
    for (const { kind, name, source, was, is, becomes, held } of reused.examples) {
      const rename = `${kind} ${shortName(becomes ?? "")} (${source} ${formatName(was)})`;
      const waits =
        becomes === undefined ? "" : held ? `; ${rename} waits for its name` : `; ${rename} is created anew`;
      notes.push(
        noteAbout(
          kind,
          becomes === undefined ? [name] : [name, becomes],
          `  ${kind} ${formatName(name)}: ${source} ${formatName(was)} before, ${formatName(is)} now${waits}`,
        ),
      );
    }
    notes.push(...andMore(reused));
    if (adoptable > 0)
      notes.push(
        `  the sources no longer have the earlier ${adoptable === 1 ? "record of 1 of these names" : `records of ${formatNumber(adoptable)} of these names`}. If they are the same people with new ids, because the directory was rebuilt, ` +
          `adopt them by name, once, with --override heldNames: \`${command("plan", sync, "--override", "heldNames")}\``,
      );
  }
  if (kept.count > 0) {
    notes.push(`${pluralize(kept.count, "principal")} gone from the sources, and never deleted by a sync:`);
    for (const { kind, name, because } of kept.examples) {
      notes.push(noteAbout(kind, [name], `  ${kind} ${formatName(name)}: ${whyKept[because]}`));
    }
    notes.push(...andMore(kept));
  }
  if (leaving.count > 0) {
    const who = formatPrincipals(leaving.count - leaving.groups, leaving.groups);
    notes.push(`${who} gone from the sources, staying for now (deletions.after):`);
    for (const { kind, name, on } of leaving.examples)
      notes.push(noteAbout(kind, [name], `  ${kind} ${formatName(name)} is leaving on ${on}`));
    notes.push(...andMore(leaving));
  }
  return notes;
}

/** That names were adopted. */
export function adoptedNotes(adopted = 0): string[] {
  if (adopted === 0) return [];
  return [
    `${pluralize(adopted, "principal")} adopted by name (heldNames overridden): from now on their names belong to the records that have them; the next run plans what else has changed`,
  ];
}

const whyKept: Record<Kept["because"], string> = {
  administrator: "an administrator",
  "last member": "a protected group would have no member left",
  "foreign member": "a principal of another type is in it",
};

/** What a person should know: a line, or one about a single principal. */
export type Note = string | { readonly text: string; readonly kind: Kind; readonly names: readonly string[] };

/** @param names the principal's; both, when it is renamed */
function noteAbout(kind: Kind, names: readonly string[], text: string): Note {
  return { text, kind, names };
}

/** The line below examples that says how many more there are, if any. */
export function andMore({
  count,
  examples,
}: {
  readonly count: number;
  readonly examples: readonly unknown[];
}): Note[] {
  return count > examples.length ? [`  … and ${formatNumber(count - examples.length)} more`] : [];
}

/** The lines of notes, and who they are about. */
export function withSubjects(notes: readonly Note[]): {
  readonly notes: readonly string[];
  readonly subjects: readonly NoteSubject[];
} {
  return {
    notes: notes.map((note) => (typeof note === "string" ? note : note.text)),
    subjects: notes.flatMap((note, place) =>
      typeof note === "string" ? [] : [{ note: place, kind: note.kind, names: note.names }],
    ),
  };
}
