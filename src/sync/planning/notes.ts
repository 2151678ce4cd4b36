import { command, forOptions } from "#commands.ts";
import { messageOf } from "#errors.ts";
import type { Departures, Kept } from "#plan/departures.ts";
import type { Foreign } from "#plan/carried.ts";
import type { Releases } from "#plan/renames.ts";
import type { DriftLeft } from "#plan/drift.ts";
import type { LimitCheck, Measure, Overridable } from "#plan/limits.ts";
import type { Subject } from "#plan/selection.ts";
import type { Suspicious, SuspiciousValue } from "#plan/suspicious.ts";
import type { Quarantined, QuarantineReason } from "#principals/assembly.ts";
import type { Numbered } from "#principals/names.ts";
import type { CutLists, Unresolved } from "#principals/references.ts";
import type { Unlisted } from "#principals/scope.ts";
import { detailAbout, doubtHeadings, noteIf, noteOn } from "#plan/note.ts";
import type { Note, NoteDetail } from "#plan/note.ts";
import { pluralize, formatNumber, formatName, formatPrincipals, quote, shortName, visible } from "#text.ts";
import type { Target } from "#connector.ts";
import { changes } from "#plan/change.ts";
import { waitingWords } from "#plan/render/shared.ts";
import type { Counts } from "#plan/change.ts";
import { sameName } from "#plan/remote.ts";
import type { Desired, RemoteFacts } from "./desired.ts";
import { pushedNotes } from "./pushes.ts";

/** What the limits make of the plan of a sync. */
interface Limited {
  readonly sync: string;
  readonly limits: readonly LimitCheck[];
  readonly waiting: readonly Measure[];
  /** What a person has overridden for the plan. */
  readonly overrides: readonly Overridable[];
  /** What stays as somebody made it in the target. */
  readonly drift?: DriftLeft | undefined;
  /** What it would write that is probably a mistake. Absent: it changes nothing. */
  readonly suspicious?: Suspicious | undefined;
  /** Whom the run is for; absent: everybody. */
  readonly for?: readonly string[] | undefined;
}

/** What a person should know besides the changes: what was left out, left alone or not understood. */
export function notesOf({
  assembly,
  frozen,
  notOwned,
  byHand,
  departures,
  releases,
  foreign,
  ofOthers,
  ownedBefore,
  cutLists,
  unchangedSince,
  sync = "",
  limits = [],
  waiting = [],
  overrides = [],
  drift,
  suspicious,
  pushed,
  remote,
}: Desired & Partial<Limited>): Note[] {
  return [
    ...(waiting.length > 0 ? [waitingNote({ sync, limits, waiting, overrides })] : []),
    ...(unchangedSince === undefined
      ? []
      : [{ text: `sources unchanged since ${unchangedSince.toISOString()}, and not read again (fullReadEvery)` }]),
    ...unreadNotes(assembly.unread),
    ...noteIf(
      frozen.unread,
      `${pluralize(frozen.unread, "principal")} of the target left alone: the source could not be read`,
    ),
    ...pushedNotes(pushed, frozen.awaited),
    ...(assembly.unlisted === undefined ? [] : unlistedNotes(assembly.unlisted)),
    ...quarantineNotes(assembly.quarantined),
    ...numberedNotes(assembly.numbered),
    ...(suspicious === undefined ? [] : suspiciousNotes(suspicious)),
    ...assembly.neverSet.map((each) => ({
      text: `rule ${each} is set in no record: is that the attribute's name?`,
    })),
    ...unresolvedNotes(assembly.unresolved),
    ...cutLists.map(cutNote),
    ...departureNotes(departures, sync, releases),
    ...driftNotes(drift),
    ...byHandNotes(byHand),
    ...notOwnedNotes(notOwned),
    ...noteIf(frozen.withheld, `${pluralize(frozen.withheld, "record")} withheld: the name is protected in the target`),
    ...noteIf(
      frozen.unmanaged,
      `${pluralize(frozen.unmanaged, "principal")} of the target left alone: not owned by this sync`,
      ownedBefore.map(({ sync, count }) => ({
        text: `${formatNumber(count)} of them: owned by ${sync}, a sync that the configuration no longer has. If it was renamed, call it ${sync} again: otherwise no sync deletes or suspends these`,
      })),
    ),
    ...ofOthersNotes(ofOthers),
    ...foreignNotes(foreign),
    ...(remote === undefined ? [] : remoteNotes(remote)),
  ];
}

/** Whom the sources have, and another sync owns. */
function ofOthersNotes(found: Desired["ofOthers"]): Note[] {
  return noteOn(
    found,
    `${pluralize(found.count, "record")} withheld: another sync owns the user of that name. If they are the same people, use one sync with both sources and \`join\``,
    ({ name, origin }) => detailAbout("user", [name], `user ${formatName(name)} (${origin})`),
  );
}

/** What the target cannot hold, or holds otherwise. */
function remoteNotes({ flattened, readsMembers, hidesState, held, replaced }: RemoteFacts): Note[] {
  const notes = [
    ...noteIf(
      flattened,
      `${pluralize(flattened, "group")} left out of other groups: the target does not nest groups. Rules put users in directly: nestedMemberOf(entry)`,
    ),
    ...noteOn(
      replaced,
      `${pluralize(replaced.count, "name")} of this sync now ${replaced.count === 1 ? "belongs" : "belong"} to another object in the target: adopted if the sources have the name, left alone if they don't`,
      ({ kind, name }) =>
        detailAbout(kind, [name], `${kind} ${formatName(name)}: what the sync wrote is gone, or has another name`),
    ),
  ];
  if (!readsMembers)
    notes.push({
      text: "memberships cannot be verified: the target does not say who is in a group. They are as the sync wrote them last",
    });
  if (hidesState)
    notes.push({
      text: "suspensions cannot be verified: the target does not show whether users are active. They are as the sync wrote them last",
    });
  for (const { attribute, count } of held)
    notes.push({
      text: `the target stores ${attribute} otherwise than it is sent, of ${pluralize(count, "principal")}`,
    });
  return notes;
}

/** What writing takes where the target allows so many changes a minute. Shorter than a minute is not worth a note. */
export function timeNotes(target: Target, counts: Counts): Note[] {
  if (target.takes === "list" || target.abilities.perMinute === undefined) return [];
  const { perMinute, membersPerChange } = target.abilities;
  const memberships = Math.ceil((counts.membershipsAdded + counts.membershipsRemoved) / membersPerChange);
  const minutes = Math.ceil((changes(counts) + memberships) / perMinute);
  if (minutes < 2) return [];
  return [
    {
      text: `writing takes about ${formatNumber(minutes)} minutes: the target takes ${formatNumber(perMinute)} changes a minute`,
    },
  ];
}

/** The most types that a note names. */
const mostTypes = 5;

/** What the target has as other types, and whose names that takes. */
function foreignNotes({ types, taken }: Foreign): Note[] {
  const others = types.filter(({ type }) => type !== sameName);
  const same = types.reduce((sum, each) => sum + (each.type === sameName ? each.count : 0), 0);
  const count = others.reduce((sum, each) => sum + each.count, 0);
  const named = others.slice(0, mostTypes).map((each) => `${formatNumber(each.count)} ${formatName(each.type)}`);
  const more = others.length > mostTypes ? [`${formatNumber(others.length - mostTypes)} more types`] : [];
  return [
    ...noteIf(
      same,
      `${pluralize(same, "name")} of the target left alone: each belongs to several users or groups, and none of these is known to be this sync's`,
    ),
    ...noteOn(
      taken,
      `${pluralize(taken.count, "record")} withheld: the target has the name as another type`,
      ({ kind, name, type }) => detailAbout(kind, [name], `${kind} ${formatName(name)}: ${formatName(type)}`),
    ),
    ...noteIf(
      count,
      `${pluralize(count, "principal")} of other types left as the target has them: ${[...named, ...more].join(", ")}`,
    ),
  ];
}

/** Memberships that somebody added in the target. */
function byHandNotes({ kept, undecided }: Desired["byHand"]): Note[] {
  return [
    ...noteOn(
      kept,
      `${pluralize(kept.count, "manual membership")} kept (memberships.keepManual)`,
      ({ kind, name, group }) => detailAbout(kind, [name], `${kind} ${formatName(name)} in ${formatName(group)}`),
    ),
    ...noteIf(
      undecided,
      `${pluralize(undecided, "membership")} removed that may be manual: it is not known which ones the last run gave`,
    ),
  ];
}

/** Groups that rules name and that are somebody else's. */
function notOwnedNotes(found: Desired["notOwned"]): Note[] {
  const [groups, get] = found.count === 1 ? ["1 group", "gets"] : [pluralize(found.count, "group"), "get"];
  return noteOn(
    found,
    `${groups} of the target that rules name ${get} members and nothing else: not owned by this sync (to own one, list it under staticGroups)`,
    (name) => detailAbout("group", [name], `group ${formatName(name)}`),
  );
}

/** The notes of a plan that is about some alone: what is about everybody, as that may be about them, too. */
export function notesForSome(facts: Desired & Limited): Note[] {
  return [...(facts.waiting.length > 0 ? [waitingNote(facts)] : []), ...unreadNotes(facts.assembly.unread)];
}

/** What notes say about some. */
export function detailsAbout(subjects: readonly Subject[], notes: readonly Note[]): NoteDetail[] {
  return notes
    .flatMap(({ details = [] }) => details)
    .filter(({ kind, names = [] }) => subjects.some((each) => each.kind === kind && names.includes(each.name)));
}

function unlistedNotes({ users, groups, lists }: Unlisted): Note[] {
  return noteIf(users + groups, `${formatPrincipals(users, groups)} of the sources not in scope (${lists.join(", ")})`);
}

/** What stays as somebody made it in the target, and why. */
export function driftNotes({ left, ignored }: DriftLeft = { left: 0, ignored: 0 }): Note[] {
  return [
    ...noteIf(left, `${pluralize(left, "principal")} left as changed in the target (drift: leave)`),
    ...noteIf(ignored, `${pluralize(ignored, "principal")} left as changed in the target (drift.ignore)`),
  ];
}

function unreadNotes(unread: Desired["assembly"]["unread"]): Note[] {
  return unread.map(({ name, error }) => ({
    text: `source ${name} could not be read (it is optional): everything that came from it stays unchanged`,
    details: [{ text: messageOf(error) }],
  }));
}

/** Who gets another name than the rule says. */
function numberedNotes(numbered: Numbered = { count: 0, examples: [] }): Note[] {
  return noteOn(
    numbered,
    `${pluralize(numbered.count, "new principal")} with another name, since theirs is taken (unique):`,
    ({ kind, name, base }) => detailAbout(kind, [name], `${kind} ${shortName(base)} becomes ${shortName(name)}`),
  );
}

/** What is written as it is, and is probably a mistake in the sources. */
function suspiciousNotes({ unseen, addresses, alike }: Suspicious): Note[] {
  return [
    ...noteOn(
      unseen,
      `${pluralize(unseen.count, "value")} with outer white space or invisible characters, to be written as ${unseen.count === 1 ? "it is" : "they are"}; trim(…) or replace(…) in the rule takes them out:`,
      suspiciousDetail,
    ),
    ...noteOn(
      addresses,
      `${pluralize(addresses.count, "mail value")} that ${addresses.count === 1 ? "isn't" : "aren't"} one address:`,
      suspiciousDetail,
    ),
    ...noteOn(
      alike,
      `${pluralize(alike.count, "new principal")} whose name differs from another's only in case; the target keeps them apart. If they are the same, use lower(…) in the rule, or \`join\` for several sources:`,
      ({ kind, name, other }) => detailAbout(kind, [name], `${kind} ${shortName(name)} beside ${shortName(other)}`),
    ),
  ];
}

function suspiciousDetail({ kind, name, attribute, value }: SuspiciousValue): NoteDetail {
  return detailAbout(kind, [name], `${kind} ${shortName(name)}: ${attribute} ${visible(quote(value))}`);
}

/** Why records are quarantined, the most frequent reasons first. */
export function quarantineNotes({ count, reasons, more }: Quarantined): Note[] {
  if (count === 0) return [];
  return [
    {
      doubt: "quarantined",
      text: `${pluralize(count, "record")} ${doubtHeadings.quarantined}`,
      details: [...reasons.map(quarantineDetail), ...moreReasons(more)],
    },
  ];
}

function quarantineDetail({ reason, kind, count, examples }: QuarantineReason): NoteDetail {
  const names = [...new Set(examples.map(({ name, sourceId }) => name ?? sourceId))];
  if (count === 1) return detailAbout(kind, names, `${kind} ${names[0]} (${examples[0]?.origin}): ${reason}`);
  const isShared = names.length === 1;
  const listed = examples.map(({ name, sourceId, origin }) => (isShared ? origin : `${name ?? sourceId} (${origin})`));
  const first = count > examples.length ? "first " : "";
  return detailAbout(kind, names, `${reason}: ${pluralize(count, kind)}, ${first}${listed.join(", ")}`);
}

/** @param alike they are there for the same reason as those that are named */
function moreReasons(more: number, alike = false): NoteDetail[] {
  return more > 0
    ? [{ text: `… and ${formatNumber(more)} more for ${alike ? "the same reason" : "other reasons"}` }]
    : [];
}

/** Why references make no membership, the most frequent reasons first. */
export function unresolvedNotes({ count, excluded, reasons, more, alike }: Unresolved): Note[] {
  const lost = count - excluded;
  const notes: Note[] = [];
  if (lost > 0)
    notes.push({
      doubt: "memberships",
      text: `${pluralize(lost, "membership")} ${doubtHeadings.memberships}`,
      details: [
        ...reasons.map(({ reason, count, origin }) => ({
          text: `${reason}: ${pluralize(count, "membership")}, first ${origin}`,
        })),
        ...moreReasons(more, alike),
      ],
    });
  if (excluded > 0)
    notes.push({
      text: `${pluralize(excluded, "membership")} left out, since the rules exclude the group or the member`,
    });
  return notes;
}

/** A server that cuts lists of members says success: only the sizes show it. */
function cutNote({ source, size, groups, names }: CutLists): Note {
  const listed = names.map((name) => shortName(name)).join(", ");
  const which =
    groups === 1
      ? `group ${listed} has exactly ${formatNumber(size)} members and had more`
      : `the ${formatNumber(groups)} largest groups (${listed}${groups > names.length ? ", …" : ""}) have exactly ${formatNumber(size)} members each`;
  const text = `source ${source}: ${which}; does the server cut lists of members at ${formatNumber(size)}? Members beyond that would lose the group`;
  return { text };
}

/** What the limits have left out of a plan, and how to override them. */
function waitingNote({ sync, limits, waiting, overrides, for: names }: Limited): Note {
  const all = new Set([...overrides, ...limits.filter((each) => each.tripped).map(({ limit }) => limit)]);
  return {
    text:
      `${waitingWords(waiting)}; the rest goes on. ` +
      `The plan with them: \`${command("plan", sync, ...forOptions(names), "--override", [...all].join(","))}\``,
  };
}

/** Notes on changed names and on those who leave later or never. */
export function departureNotes(departures: Departures, sync: string, releases?: Releases): Note[] {
  const { kept, leaving, staying } = departures;
  return [
    ...renamedNotes(departures),
    ...renameNotes(departures, sync, releases?.renames),
    ...reusedNotes(departures, sync, releases?.reusedNames),
    ...noteOn(
      kept,
      `${pluralize(kept.count, "principal")} gone from the sources, and never deleted by a sync:`,
      ({ kind, name, because }) => detailAbout(kind, [name], `${kind} ${formatName(name)}: ${whyKept[because]}`),
    ),
    ...noteOn(
      leaving,
      `${formatPrincipals(leaving.count - leaving.groups, leaving.groups)} gone from the sources, staying for now (deletions.after):`,
      ({ kind, name, on, suspendedOn }) => {
        const suspended = suspendedOn === undefined ? "" : `, suspended from ${suspendedOn} on`;
        return detailAbout(kind, [name], `${kind} ${formatName(name)} is leaving on ${on}${suspended}`);
      },
    ),
    ...(staying === undefined
      ? []
      : noteOn(
          staying,
          `${pluralize(staying.count, "principal")} gone from the sources and never deleted (deletions.delete):`,
          ({ kind, name, suspendedOn }) => {
            const state = suspendedOn === undefined ? "stays" : `is suspended from ${suspendedOn} on`;
            return detailAbout(kind, [name], `${kind} ${formatName(name)} ${state}`);
          },
        )),
  ];
}

/** Those that keep their account. */
function renamedNotes({ inPlace }: Departures): Note[] {
  if (inPlace === undefined) return [];
  return noteOn(
    inPlace,
    `${pluralize(inPlace.count, "rename")} in place: the same record has another name now, and the account gets it, with its memberships and access:`,
    (rename) => detailAbout(rename.kind, [rename.from, rename.to], renameWords(rename)),
  );
}

function renameWords({ kind, from, to, source, sourceId }: Departures["renames"]["examples"][number]): string {
  return `${kind} ${shortName(from)} is now ${shortName(to)} (${source} ${formatName(sourceId)})`;
}

function renameNotes({ renames, inPlace }: Departures, sync: string, releases: Releases["renames"] = []): Note[] {
  const cannot =
    inPlace === undefined
      ? "The target cannot rename"
      : "These names are swapped, merged or taken, and cannot change in place. Otherwise";
  const isHeld = renames.examples.some(({ held }) => held);
  return noteOn(
    renames,
    `${pluralize(renames.count, "rename")}: the same record has another name now. ${cannot}: the old principal is deleted, and ` +
      "a new one is created, without the password and the access of the old one. Memberships in other sources' groups are kept",
    (rename) => {
      const waits = rename.held ? "; it keeps its name for now" : "";
      return detailAbout(rename.kind, [rename.from, rename.to], `${renameWords(rename)}${waits}`);
    },
    isHeld && releases.length > 0
      ? [{ text: `to see what applying them does: \`${command("plan", sync, "--override", releases.join(","))}\`` }]
      : [],
  );
}

function reusedNotes(
  { reused, adoptable = 0 }: Departures,
  sync: string,
  releases: Releases["reusedNames"] = [],
): Note[] {
  const isHeld = reused.examples.some(({ held }) => held);
  const isOne = reused.count === 1;
  const [they, them] = isOne ? ["It stays", "it to the new record"] : ["They stay", "them to the new records"];
  const outcome = isHeld
    ? `${they} unchanged${releases.length === 0 ? "" : `; to give ${them}: \`${command("plan", sync, "--override", releases.join(","))}\``}`
    : isOne
      ? "It goes to the new record"
      : "They go to the new records";
  return noteOn(
    reused,
    `${pluralize(reused.count, "name")} ${reusedHeading}: another person, or group, would get the password and the access of the earlier one. ${outcome}`,
    ({ kind, name, source, was, is, becomes, held }) => {
      const rename = `${kind} ${shortName(becomes ?? "")} (${source} ${formatName(was)})`;
      const waits =
        becomes === undefined
          ? ""
          : held
            ? `; ${rename} waits for its name`
            : `; ${source} ${formatName(was)} is ${kind} ${shortName(becomes)} now`;
      return detailAbout(
        kind,
        becomes === undefined ? [name] : [name, becomes],
        `${kind} ${formatName(name)}: ${source} ${formatName(was)} before, ${formatName(is)} now${waits}`,
      );
    },
    adoptable === 0
      ? []
      : [
          {
            text:
              `the sources no longer have the earlier ${adoptable === 1 ? "record of 1 of these names" : `records of ${formatNumber(adoptable)} of these names`}. If they are the same people with new ids, because the directory was rebuilt, ` +
              `adopt them by name, once, with --override heldNames: \`${command("plan", sync, "--override", "heldNames")}\``,
          },
        ],
  );
}

/**
 * The notes of a plan that adopts names. Where it adopts all that are held, nothing more is said of them.
 * @param adopted how many
 */
export function withAdopted(notes: readonly Note[], adopted = 0): readonly Note[] {
  if (adopted === 0) return notes;
  const text = `${pluralize(adopted, "principal")} adopted by name (heldNames overridden): from now on ${adopted === 1 ? "its name belongs to the record that has it" : "their names belong to the records that have them"}; the next run plans what else has changed`;
  // A stored plan has its notes as text alone.
  const held = notes.find((note) => note.text.startsWith(`${pluralize(adopted, "name")} ${reusedHeading}`));
  const details = held?.details?.filter((each) => !each.text.includes("--override heldNames"));
  return [{ text, details }, ...notes.filter((note) => note !== held)];
}

/** What the note on reused names says after their number. */
const reusedHeading = "of another record now";

const whyKept: Record<Kept["because"], string> = {
  administrator: "an administrator",
  "last member": "a protected group would have no member left",
  "foreign member": "a principal of another type is in it",
};
