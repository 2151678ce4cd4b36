import type { Kind } from "#principals/principal.ts";
import { number } from "#text.ts";
import type { NoteSubject } from "#sync/record.ts";

/** What a person should know: a line, or one about a single principal. */
export type Note = string | { readonly text: string; readonly kind: Kind; readonly names: readonly string[] };

/** @param names the principal's; of one with another name, both */
export function about(kind: Kind, names: readonly string[], text: string): Note {
  return { text, kind, names };
}

/** The line below examples that says how many there are beside them; nothing where there is none. */
export function unnamed({
  count,
  examples,
}: {
  readonly count: number;
  readonly examples: readonly unknown[];
}): Note[] {
  return count > examples.length ? [`  … and ${number(count - examples.length)} more`] : [];
}

/** The lines, and which of them are about whom. */
export function told(notes: readonly Note[]): {
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
