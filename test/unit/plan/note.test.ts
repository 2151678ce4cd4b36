import { expect, test } from "vitest";
import { isDoubt, noteDocument, noteOn, readNotes, withoutNames } from "#plan/note.ts";
import type { Note } from "#plan/note.ts";

const notes: readonly Note[] = [
  {
    text: "only user ada, group staff: everything else in the target stays unchanged",
    subjects: [
      { kind: "user", name: "ada" },
      { kind: "group", name: "staff" },
    ],
  },
  {
    text: "6 records quarantined: they stay unchanged in the target",
    doubt: "quarantined",
    details: [
      { text: "no mail: 4 users, first kim (people.csv:7)", kind: "user", names: ["kim", "kim8"] },
      { text: "… and 2 more for other reasons" },
    ],
  },
  { text: "4 memberships left out: the group or the member is not in scope", doubt: "memberships" },
  { text: "sources unchanged" },
];

test("a note on what was found has the examples and says how many more there are; nothing found is no note", () => {
  const examples = ["a", "b", "c"];
  const detailOf = (text: string) => ({ text });
  expect(noteOn({ count: 1_203, examples }, "renamed", detailOf, [{ text: "why" }])).toEqual([
    {
      text: "renamed",
      details: [{ text: "a" }, { text: "b" }, { text: "c" }, { text: "… and 1,200 more" }, { text: "why" }],
    },
  ]);
  expect(noteOn({ count: 3, examples }, "renamed", detailOf)).toEqual([
    { text: "renamed", details: examples.map(detailOf) },
  ]);
  expect(noteOn({ count: 0, examples: [] }, "renamed", detailOf)).toEqual([]);
});

test("in JSON, notes are lines and whom they are about, as in 0.2, and come back from them", () => {
  const document = noteDocument(notes);
  expect(document).toEqual({
    notes: [
      "only user ada, group staff: everything else in the target stays unchanged",
      "6 records quarantined: they stay unchanged in the target",
      "  no mail: 4 users, first kim (people.csv:7)",
      "  … and 2 more for other reasons",
      "4 memberships left out: the group or the member is not in scope",
      "sources unchanged",
    ],
    subjects: [
      { note: 0, kind: "user", names: ["ada"] },
      { note: 0, kind: "group", names: ["staff"] },
      { note: 2, kind: "user", names: ["kim", "kim8"] },
    ],
  });
  expect(readNotes(JSON.parse(JSON.stringify(document)))).toEqual(notes);
  expect(readNotes({ notes: ["nothing of the kind", "  indented"] }).filter(isDoubt)).toEqual([]);
  const earlier = "1 record quarantined: what the target has of them stays as it is";
  expect(readNotes({ notes: [earlier] })).toEqual([{ text: earlier, doubt: "quarantined" }]);
});

test("what names people is left out where nobody may be named, the sentence itself included", () => {
  expect(withoutNames(notes).map(({ text }) => text)).toEqual([
    "6 records quarantined: they stay unchanged in the target",
    "4 memberships left out: the group or the member is not in scope",
    "sources unchanged",
  ]);
  expect(JSON.stringify(withoutNames(notes))).not.toMatch(/kim|ada|staff/);
});
