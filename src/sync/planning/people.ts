import { anySpelling } from "#principals/principal.ts";
import { command } from "#commands.ts";
import { literal } from "#duckdb/database.ts";
import type { Connection } from "#duckdb/database.ts";
import { InputError } from "#errors.ts";
import { detailAbout, noteOn } from "#plan/note.ts";
import type { Note, NoteDetail } from "#plan/note.ts";
import { narrowTo } from "#plan/selection.ts";
import type { LeftMemberships, Subject } from "#plan/selection.ts";
import type { Kind, PrincipalValue } from "#principals/principal.ts";
import type { Attributes } from "#principals/attributes.ts";
import type { CompiledRules } from "#principals/compile.ts";
import type { Judged, Observer } from "#principals/stage.ts";
import { tables } from "#plan/tables.ts";
import { formatName, pluralize, quote, withoutCase } from "#text.ts";

/* Who is meant by a name that a person gives: `explain NAME`, `plan --for NAME`. Case does not matter. */

/** What a person calls somebody: a name that may have `user:` or `group:` in front. */
export function calledBy(given: string): { readonly kind: Kind | undefined; readonly text: string } {
  const [, kind, text = given] = /^(?:(user|group):)?(.+)$/s.exec(given) ?? [];
  return { kind: kind as Kind | undefined, text };
}

/** Whether a record is meant: by its id, its principal's name, display name or mail, or a value that those rules read. */
export function recordsCalled(rules: CompiledRules, wanted: string): (judged: Judged) => boolean {
  const sought = withoutCase(wanted);
  const identifying = rules.declared.all.flatMap(({ name, identifies }) => (identifies === true ? [name] : []));
  const matches = (text: unknown): boolean => typeof text === "string" && withoutCase(text) === sought;
  return ({ entry, verdict }) => {
    if (matches(entry.id) || entry.keys.some(matches) || ("name" in verdict && matches(verdict.name))) return true;
    if (verdict.verdict === "included" && identifying.some((name) => valuesOf(verdict.attributes[name]).some(matches)))
      return true;
    return rules.identifying(entry).some((value) => (Array.isArray(value) ? value.some(matches) : matches(value)));
  };
}

function valuesOf(value: PrincipalValue | undefined): readonly unknown[] {
  return typeof value === "object" ? value : [value];
}

/**
 * The principals with that name, in the sources, in the ledger or in the target, those that are known by it there, and those that
 * are renamed in place and had it until now.
 */
export async function principalsCalled(
  connection: Connection,
  attributes: Attributes,
  wanted: string,
  most: number,
): Promise<Subject[]> {
  const sought = anySpelling(literal(wanted));
  const isCalled = `${anySpelling("name")} = ${sought}`;
  await connection.run(`CREATE TEMP TABLE IF NOT EXISTS renamed_in_place (${tables.renamed_in_place})`);
  return connection.rows<Subject>(`
    SELECT kind, name FROM actual
    WHERE ${[isCalled, ...attributes.identifying().map((text) => `${anySpelling(text)} = ${sought}`)].join(" OR ")}
    UNION SELECT kind, name FROM assembled WHERE ${isCalled}
    UNION SELECT kind, name FROM ledger WHERE ${isCalled} OR ${anySpelling("source_id")} = ${sought}
    UNION SELECT kind, becomes FROM renamed_in_place WHERE ${anySpelling("was")} = ${sought}
    ORDER BY kind DESC, name LIMIT ${most}`);
}

/** The names of principals, in the sources or in the target, that are most like a text. Case does not matter. */
export async function nearestNames(connection: Connection, wanted: string): Promise<string[]> {
  const sides = `${anySpelling("name")}, ${anySpelling(literal(wanted))}`;
  const rows = await connection.rows<{ name: string }>(`
    WITH known AS (
      SELECT name FROM actual UNION SELECT name FROM assembled UNION SELECT name FROM quarantined WHERE name IS NOT NULL
      UNION SELECT name FROM actual_foreign)
    SELECT name FROM known WHERE jaro_winkler_similarity(${sides}) > 0.85
    ORDER BY damerau_levenshtein(${sides}), name LIMIT 5`);
  return rows.map(({ name }) => name);
}

/** Some users and groups that a run is about, while everything else in the target stays unchanged. */
export interface Chosen {
  readonly subjects: readonly Subject[];
  readonly left: LeftMemberships;
}

/** The most principals or records that one name is compared with: one that means more says nothing. */
const most = 20;

/** Finds out who is meant by names. */
export class People {
  readonly #sync: { readonly name: string; readonly rules: CompiledRules };
  readonly #sought: readonly Sought[];
  /** The names that some record was found for. */
  readonly #seen = new Set<string>();

  /** @param names each may have `user:` or `group:` in front */
  constructor(sync: { readonly name: string; readonly rules: CompiledRules }, names: readonly string[]) {
    this.#sync = sync;
    this.#sought = names.map((given) => {
      const { kind, text } = calledBy(given);
      return { given, kind, text, isMeant: recordsCalled(sync.rules, text), found: new Map() };
    });
  }

  /** What finds their records while the sources are read. */
  readonly observer: Observer = {
    judged: (judged) => {
      const { verdict, entry } = judged;
      for (const { given, isMeant, found } of this.#sought) {
        if (found.size > most || !isMeant(judged)) continue;
        this.#seen.add(given);
        if ("name" in verdict && verdict.name !== undefined)
          found.set(judged.seq, { kind: entry.kind, name: verdict.name });
      }
    },
    assembled: async (connection) => {
      if (Object.keys(this.#sync.rules.namings).length === 0) return;
      // Some have another name than the rule gives.
      for (const { found } of this.#sought)
        for (const [seq, { kind }] of found) {
          const [row] = await connection.rows<{ name: string | null }>(
            `SELECT name FROM staged_entry WHERE seq = ${seq}`,
          );
          if (row?.name !== null && row?.name !== undefined) found.set(seq, { kind, name: row.name });
        }
    },
  };

  /**
   * Takes everybody else out of `desired`. Runs after `combine`.
   * @throws {InputError} a name means nobody, or several
   */
  async narrow(connection: Connection): Promise<Chosen> {
    const subjects = new Map<string, Subject>();
    for (const { given, kind, text, found } of this.#sought) {
      const called = await principalsCalled(connection, this.#sync.rules.declared, text, most);
      const all = new Map([...found.values(), ...called].map((each) => [JSON.stringify(each), each]));
      const some = [...all.values()].filter((each) => kind === undefined || each.kind === kind);
      const meant = await singleOut(connection, some, text);
      const isSeen = this.#seen.has(given);
      if (meant === undefined) throw await notFound(connection, { sync: this.#sync.name, given, text, isSeen });
      if (Array.isArray(meant)) throw severalCalled(given, meant);
      subjects.set(JSON.stringify(meant), meant);
    }
    return { subjects: [...subjects.values()], left: await narrowTo(connection, [...subjects.values()]) };
  }
}

/** A name that a person gives. */
interface Sought {
  readonly given: string;
  readonly kind: Kind | undefined;
  readonly text: string;
  readonly isMeant: (judged: Judged) => boolean;
  /** What its records make, by their place in the read. */
  readonly found: Map<number, Subject>;
}

/** Of those that may be meant the one that is, all where that is not clear, or undefined where nobody is there. */
async function singleOut(
  connection: Connection,
  some: readonly Subject[],
  text: string,
): Promise<Subject | Subject[] | undefined> {
  if (some.length === 0) return undefined;
  const values = some.map(({ kind, name }) => `(${literal(kind)}, ${literal(name)})`).join(", ");
  // Who is renamed is one person with two names.
  const there = await connection.rows<Subject>(`
    SELECT kind, name FROM (VALUES ${values}) c(kind, name)
    WHERE (kind, name) IN (SELECT (kind, name) FROM actual UNION SELECT (kind, name) FROM assembled)
      AND (kind, name) NOT IN (SELECT (kind, was) FROM renamed WHERE (kind, becomes) IN (VALUES ${values}))
    ORDER BY kind DESC, name`);
  const exact = there.filter(({ name }) => name === text);
  const meant = exact.length > 0 ? exact : there;
  return meant.length > 1 ? meant : meant[0];
}

async function notFound(
  connection: Connection,
  { sync, given, text, isSeen }: { sync: string; given: string; text: string; isSeen: boolean },
): Promise<InputError> {
  const why = `\`${command("explain", text, "--sync", sync)}\` says why`;
  if (isSeen) return new InputError(`--for ${quote(given)}: its record makes no user or group: ${why}`);
  const nearest = await nearestNames(connection, text);
  const hint = nearest.length === 0 ? "" : `; similar names: ${nearest.map(formatName).join(", ")}`;
  return new InputError(`--for ${quote(given)}: no user or group of that name is in the sources or the target${hint}`);
}

function severalCalled(given: string, several: readonly Subject[]): InputError {
  const names = several.map(({ kind, name }) => quote(`${kind}:${name}`));
  return new InputError(`--for ${quote(given)} matches several: give one of ${names.join(", ")}`);
}

/** What a person should know of a run for some, with what is noted about them. */
export async function peopleNotes(
  connection: Connection,
  sync: string,
  { subjects, left }: Chosen,
  about: readonly NoteDetail[],
): Promise<Note[]> {
  const unchanged: NoteDetail[] = [];
  for (const { kind, name } of subjects) {
    const [change] = await connection.rows(
      `SELECT true FROM changes WHERE kind = '${kind}' AND name = ${literal(name)} LIMIT 1`,
    );
    if (change === undefined) {
      const why = `\`${command("explain", name, "--sync", sync)}\` says why`;
      unchanged.push(detailAbout(kind, [name], `${kind} ${formatName(name)}: nothing to do; ${why}`));
    }
  }
  return [
    {
      text: `only ${subjects.map(nameOf).join(", ")}: everything else in the target stays unchanged`,
      subjects,
      details: [...unchanged, ...about],
    },
    ...noteOn(
      { count: left.groups.length + left.more, examples: left.groups },
      `${pluralize(left.count, "membership")} left out: the target does not have the group yet, and it is not named with --for:`,
      (name) => detailAbout("group", [name], `group ${formatName(name)}`),
    ),
  ];
}

function nameOf({ kind, name }: Subject): string {
  return `${kind} ${formatName(name)}`;
}
