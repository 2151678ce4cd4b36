import { Refusal } from "#control/answers.ts";
import { changesQuery, read } from "#control/requests.ts";
import type { Action } from "#plan/change.ts";
import type { Selection, Subject } from "#plan/selection.ts";
import type { Filter, StoredPlan } from "#plan/stored.ts";
import type { RunRecord } from "#sync/record.ts";
import type { PlanFilter } from "#console/pages/plan.ts";

/* What the fields of the plan's forms mean. */

/** Opens the plan of a run for as long as `work` takes; undefined where it is no longer stored. */
export type ReadPlan = <Result>(
  run: RunRecord,
  filter: Filter,
  work: (plan: StoredPlan) => Promise<Result>,
) => Promise<Result | undefined>;

/** The most principals that are left out one by one; a selection is part of the journal. */
const mostExcepted = 1000;

const actions: readonly Action[] = ["create", "update", "delete"];

type Values = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The fields of a query that were filled in. */
export function filled(query: unknown): Values {
  return Object.fromEntries(Object.entries(query as Values).filter(([, value]) => value !== "" && value !== undefined));
}

export function valuesOf(query: unknown): URLSearchParams {
  const pairs = Object.entries(filled(query)).flatMap(([key, value]) =>
    [value ?? ""].flat().map((each) => [key, each]),
  );
  return new URLSearchParams(pairs);
}

function valuesByName(form: URLSearchParams): Values {
  const keys = ["kind", "action", "attribute", "cause", "name", "group"];
  return filled(Object.fromEntries(keys.map((key) => [key, form.has(key) ? form.getAll(key) : undefined])));
}

/** @throws {InputError} with a problem for each field that is wrong */
export function filterOf(values: Values): PlanFilter {
  const one = (value: Values[string]): string | undefined => [value ?? []].flat()[0];
  const { kind, action, attribute, cause, name, group } = values;
  const given = { kind: one(kind), action, attribute, cause, name, group };
  const query = read(changesQuery, withoutUndefined(given), "query");
  return {
    kind: query.kind,
    action: query.action ?? [],
    attribute: query.attribute ?? [],
    cause: query.cause ?? [],
    name: one(name),
    group: one(group),
  };
}

/** A name is a part of what is looked for, unless it says with `*` where anything may stand. */
export function toFilter({ kind, action, attribute, cause, name, group }: PlanFilter): Filter {
  return {
    kind: kind as Filter["kind"],
    actions: action.length === 0 ? undefined : (action as Filter["actions"]),
    aspects: attribute.length === 0 ? undefined : (attribute as Filter["aspects"]),
    causes: cause.length === 0 ? undefined : cause,
    names: name === undefined ? undefined : [name.includes("*") ? name : `*${name}*`],
    groups: group === undefined ? undefined : [group],
  };
}

/** Undefined when nothing of the plan is left out by it. */
function onlyOf({ counts }: RunRecord, given: readonly string[] | undefined): Action[] | undefined {
  if (given === undefined) return undefined;
  const isPlanned = (action: Action): boolean =>
    counts === undefined || counts.users[action] + counts.groups[action] > 0;
  const only = actions.filter((action) => given.includes(action));
  return actions.filter(isPlanned).every((action) => only.includes(action)) ? undefined : only;
}

/** `user:ada`, `group:Sales`; a name without a kind is one of a plan. */
function subjectOf(text: string): Subject & { readonly guessed?: true } {
  const [, kind, name = ""] = /^(user|group):(.+)$/s.exec(text) ?? [];
  return kind === "user" || kind === "group" ? { kind, name } : { kind: "user", name: text, guessed: true };
}

function keyOf({ kind, name }: Subject): string {
  return `${kind}:${name}`;
}

/**
 * The part of a plan that a form names: by fields of its own, or by those of the plan's filters.
 * @throws {Refusal} 400 when what is left out would be named one by one, and is too much for that
 */
export async function selectionOf(readPlan: ReadPlan, run: RunRecord, form: URLSearchParams): Promise<Selection> {
  const some = (key: string): string[] | undefined => (form.has(key) ? form.getAll(key) : undefined);
  const { action, cause, kind, name, group, attribute } = filterOf(valuesByName(form));
  // Without a box that is ticked, a form says nothing of its boxes.
  const boxes = form.has("part") ? form.getAll("only") : some("only");
  const only = onlyOf(run, action.length > 0 ? action : boxes);
  const byFilter = {
    only,
    onlyCauses: cause.length > 0 ? cause : some("onlyCause"),
    exceptCauses: some("exceptCause"),
  };
  const lines = (form.get("exceptNames") ?? "").split(/\r?\n/).map((line) => line.trim());
  const named = [...(some("except") ?? []), ...lines.filter((line) => line !== "")].map(subjectOf);
  const isNarrower = [kind, name, group].some((each) => each !== undefined) || attribute.length > 0;
  const others = isNarrower
    ? await othersThan(readPlan, run, byFilter, toFilter({ action: [], cause: [], kind, name, group, attribute }))
    : [];
  const except = await planned(readPlan, run, [...named, ...others]);
  return { ...byFilter, except: except.length === 0 ? undefined : except };
}

/** What of a selection does not match a filter. */
async function othersThan(
  readPlan: ReadPlan,
  run: RunRecord,
  selection: Selection,
  filter: Filter,
): Promise<Subject[]> {
  const names = async (of: Filter): Promise<Subject[]> => {
    const found = await readPlan(run, of, async (stored) => {
      const subjects: Subject[] = [];
      for await (const { kind, name } of stored.changes()) subjects.push({ kind, name });
      return subjects;
    });
    return found ?? [];
  };
  const matching = new Set((await names({ ...filter, selection })).map(keyOf));
  const others = (await names({ selection })).filter((subject) => !matching.has(keyOf(subject)));
  if (others.length > mostExcepted)
    throw new Refusal(
      400,
      `that leaves out ${others.length} users and groups, which can only be named one by one: at most ${mostExcepted}. Choose a part by its action or its cause`,
    );
  return others;
}

/** Those of them that the plan changes: a name without its kind may stand for a user or a group. */
async function planned(
  readPlan: ReadPlan,
  run: RunRecord,
  subjects: readonly (Subject & { readonly guessed?: true })[],
): Promise<Subject[]> {
  const certain = subjects.filter(({ guessed }) => guessed !== true);
  const guessed = subjects.filter((subject) => subject.guessed === true);
  if (guessed.length === 0) return certain.map(({ kind, name }) => ({ kind, name }));
  const names = guessed.map(({ name }) => name);
  const wanted = new Set(names);
  const found = await readPlan(run, {}, async (stored) => {
    const subjects: Subject[] = [];
    for await (const { kind, name } of stored.changes()) if (wanted.has(name)) subjects.push({ kind, name });
    return subjects;
  });
  const missing = names.find((name) => found?.some((subject) => subject.name === name) !== true);
  if (missing !== undefined)
    throw new Refusal(400, `the plan does not change anybody called ${JSON.stringify(missing)}`);
  return [...certain, ...(found ?? [])].map(({ kind, name }) => ({ kind, name }));
}

/** The fields that a schema may leave out, left out. */
export function withoutUndefined(values: object): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
