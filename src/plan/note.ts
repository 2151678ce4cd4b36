import type { Kind } from "#principals/principal.ts";
import { formatNumber } from "#text.ts";
import type { Subject } from "./selection.ts";

/** What a person should know besides the changes of a plan: what was left out, left alone or not understood. */
export interface Note {
  /** One sentence. */
  readonly text: string;
  /** Whom the sentence itself names: then it is as confidential as the details. */
  readonly subjects?: readonly Subject[] | undefined;
  /** What is in doubt, where that is what it says. */
  readonly doubt?: DoubtKind | undefined;
  /** Reasons and examples, the most frequent first. They may name people. */
  readonly details?: readonly NoteDetail[] | undefined;
}

export interface NoteDetail {
  readonly text: string;
  /** The principals it is about, where it is about single ones. */
  readonly kind?: Kind | undefined;
  /** Their names; of one that is renamed, the former and the new one. */
  readonly names?: readonly string[] | undefined;
}

/** What a run was not sure of: records that are quarantined, memberships that lead nowhere. */
export const doubtKinds = ["quarantined", "memberships"] as const;
export type DoubtKind = (typeof doubtKinds)[number];

/** Whether a note says what is in doubt. */
export function isDoubt(note: Note): note is Note & { readonly doubt: DoubtKind } {
  return note.doubt !== undefined;
}

/** What the notes about doubts say, after the number. Stored notes are known by it: an earlier wording goes to `earlierHeadings`. */
export const doubtHeadings: Readonly<Record<DoubtKind, string>> = {
  quarantined: "quarantined: they stay unchanged in the target",
  memberships: "left out: the group or the member is not in scope",
};

/** As in 0.2. */
const earlierHeadings: ReadonlyMap<DoubtKind, string> = new Map([
  ["quarantined", "quarantined: what the target has of them stays as it is"],
]);

/** @param names the principal's; both, when it is renamed */
export function detailAbout(kind: Kind, names: readonly string[], text: string): NoteDetail {
  return { text, kind, names };
}

/** Says below examples how many more there are, if any. */
function andMore({ count, examples }: { readonly count: number; readonly examples: readonly unknown[] }) {
  return count > examples.length ? [{ text: `… and ${formatNumber(count - examples.length)} more` }] : [];
}

/** A note where there is something to count. */
export function noteIf(count: number, text: string, details: readonly NoteDetail[] = []): Note[] {
  return count > 0 ? [details.length === 0 ? { text } : { text, details }] : [];
}

/** A note on what was found, with the examples, how many more there are, and further details; none where nothing was found. */
export function noteOn<Example>(
  found: { readonly count: number; readonly examples: readonly Example[] },
  text: string,
  detailOf: (example: Example) => NoteDetail,
  further: readonly NoteDetail[] = [],
): Note[] {
  if (found.count === 0) return [];
  return [{ text, details: [...found.examples.map(detailOf), ...andMore(found), ...further] }];
}

/** Notes as lines: details are indented by two blanks. */
export function noteLines(notes: readonly Note[]): string[] {
  return notes.flatMap(({ text, details = [] }) => [text, ...details.map((detail) => `  ${detail.text}`)]);
}

/** The same notes with every text changed. */
export function mapNotes(notes: readonly Note[], change: (text: string) => string): Note[] {
  return notes.map((note) => ({
    ...note,
    text: change(note.text),
    details: note.details?.map((detail) => ({ ...detail, text: change(detail.text) })),
  }));
}

/** The notes without whatever may name people. */
export function withoutNames(notes: readonly Note[]): Note[] {
  return notes.filter(({ subjects = [] }) => subjects.length === 0).map(({ text, doubt }) => ({ text, doubt }));
}

/** Marks a line of notes as being about principals. */
export interface LineSubject {
  /** The index of the line. */
  readonly note: number;
  readonly kind: Kind;
  readonly names: readonly string[];
}

/** Notes in JSON: the lines, and whom they are about; absent: nobody, or 0.1 has stored it. */
export interface NoteDocument {
  readonly notes: readonly string[];
  readonly subjects?: readonly LineSubject[] | undefined;
}

/** Notes as `--json`, the API, the journal and webhooks have them since 0.2. */
export function noteDocument(notes: readonly Note[]): NoteDocument {
  const about = notes.flatMap(({ subjects: named = [], details = [] }) => [
    named.map(({ kind, name }) => ({ kind, names: [name] })),
    ...details.map(({ kind, names = [] }) => (kind === undefined ? [] : [{ kind, names }])),
  ]);
  const subjects = about.flatMap((each, note) => each.map(({ kind, names }) => ({ note, kind, names })));
  return { notes: noteLines(notes), ...(subjects.length > 0 && { subjects }) };
}

/** Reads `noteDocument`. */
export function readNotes({ notes: lines, subjects = [] }: NoteDocument): Note[] {
  const notes: Note[] = [];
  for (const [index, text] of lines.entries()) {
    const about = subjects.filter(({ note }) => note === index);
    const above = notes.at(-1);
    if (above !== undefined && text.startsWith("  ")) {
      const detail = { text: text.slice(2), kind: about[0]?.kind, names: about[0]?.names };
      notes[notes.length - 1] = { ...above, details: [...(above.details ?? []), detail] };
    } else
      notes.push({
        text,
        doubt: doubtOf(text),
        subjects:
          about.length === 0 ? undefined : about.flatMap(({ kind, names }) => names.map((name) => ({ kind, name }))),
      });
  }
  return notes;
}

function doubtOf(text: string): DoubtKind | undefined {
  if (!/^\d/.test(text)) return undefined;
  return doubtKinds.find((kind) =>
    [doubtHeadings[kind], earlierHeadings.get(kind)].some((words) => words !== undefined && text.endsWith(` ${words}`)),
  );
}
