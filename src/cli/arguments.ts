import { InvalidArgumentError } from "commander";
import { duration } from "#values.ts";
import { someDigest } from "#plan/change.ts";
import type { Action } from "#plan/change.ts";
import { isExpectation, overridable } from "#plan/limits.ts";
import type { Overridable } from "#plan/limits.ts";
import type { Selection } from "#plan/selection.ts";
import { aspects } from "#plan/stored.ts";
import type { Head } from "#state/audit/entry.ts";
import { incidentNames } from "#sync/drill/names.ts";
import { runStates } from "#state/record.ts";

/* What the values of options mean. Lists may be given in one value or by repeating the option. */

/** The formats of a report that is no list of changes. */
export const reportFormats = ["text", "json", "markdown"] as const;

export function wholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError("expected a whole number.");
  return Number(text);
}

export function atLeastOne(text: string): number {
  const number = wholeNumber(text);
  if (number === 0) throw new InvalidArgumentError("expected a whole number, at least 1.");
  return number;
}

/** `24h` ago, or a date or moment of ISO 8601, in UTC unless it says otherwise; in epoch milliseconds. */
export function parseMoment(value: string): number {
  const ago = duration.safeParse(value);
  if (ago.success) return Date.now() - ago.data;
  const parts = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/.exec(value);
  const moment =
    parts === null
      ? Number.NaN
      : Date.parse(value.replace(" ", "T") + (value.length > 10 && parts[1] === undefined ? "Z" : ""));
  if (Number.isNaN(moment))
    throw new InvalidArgumentError(
      "expected a duration like 24h or 7d, or a moment like 2026-11-21 or 2026-11-21T08:00Z.",
    );
  return moment;
}

/** `pending,held`; `no-change` needs no quotes. */
export const parseStates = listOfWords(runStates);

/** `half-ou,old-list` */
export const parseIncidents = listOfWords(incidentNames, (text) => text);

/** `mail,groups` */
export const parseAspects = listOfWords(aspects);

/** `create,delete`, and `creates,deletes` as well. */
export function parseActions(value: string, before: readonly Action[] = []): Action[] {
  return listOfWords(["create", "update", "delete"] as const)(value.replaceAll(/s(?=\s*(?:,|$))/g, ""), before);
}

/** `c1,c3` */
export function parseCauses(value: string, before: readonly string[] = []): string[] {
  const ids = value.split(",").map((id) => id.trim().toLowerCase());
  if (!ids.every((id) => /^c\d+$/.test(id)))
    throw new InvalidArgumentError("expected the ids of causes, as the plan shows them, like c1 or c1,c3.");
  return [...before, ...ids];
}

/** `creates,updates` */
export function parseOnly(value: string, before: NonNullable<Selection["only"]> = []): NonNullable<Selection["only"]> {
  const actions = { creates: "create", updates: "update", deletes: "delete" } as const;
  const words = listOfWords(Object.keys(actions) as (keyof typeof actions)[])(value);
  return [...before, ...words.map((word) => actions[word])];
}

/** `deletes,updates`, and expectations by their names: `expectation:no guests in finance` */
export function parseLimits(value: string, before: readonly Overridable[] = []): Overridable[] {
  const names = value.split(",").map((each) => each.trim());
  return [
    ...before,
    ...names.flatMap((name) =>
      isExpectation(name) ? [name] : listOfWords([...overridable, "expectation:NAME"])(name),
    ),
  ];
}

/** `ada`, `user:ada` or `group:Old team`: one principal, because a name may contain commas. */
export function parsePrincipals(
  value: string,
  before: NonNullable<Selection["except"]> = [],
): NonNullable<Selection["except"]> {
  const [, kind = "user", name = ""] = /^(?:(user|group):)?(.+)$/s.exec(value) ?? [];
  if (name === "") throw new InvalidArgumentError("expected the name of a user, or group:NAME.");
  return [...before, { kind: kind === "group" ? "group" : "user", name }];
}

/** A value that may contain commas. */
export function repeated(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

/** The digest of a plan, or the beginning of it that a plan shows. */
export function parseDigest(value: string): string {
  const digest = value.trim().toLowerCase();
  if (!someDigest.test(digest))
    throw new InvalidArgumentError("expected at least the 12 hexadecimal digits that `rollcall plan` shows.");
  return digest;
}

/** The head of the audit log: `12:9f86d0…`, as `rollcall audit verify` prints it. */
export function parseHead(text: string): Head {
  const { sequence, hash } = /^(?<sequence>\d{1,15}):(?<hash>[0-9a-f]{64})$/.exec(text)?.groups ?? {};
  if (sequence === undefined || hash === undefined)
    throw new InvalidArgumentError("expected NUMBER:HASH, as `rollcall audit verify` prints the last entry.");
  return { sequence: Number(sequence), hash };
}

function listOfWords<Word extends string>(
  words: readonly Word[],
  spelled = (text: string): string => text.replace("-", " "),
): (value: string, before?: readonly Word[]) => Word[] {
  return (value, before = []) => [
    ...before,
    ...value.split(",").map((each) => {
      const text = spelled(each.trim().toLowerCase());
      const word = words.find((known) => known.toLowerCase() === text);
      if (word === undefined) throw new InvalidArgumentError(`expected some of ${words.join(", ")}.`);
      return word;
    }),
  ];
}
