import { actions, countOf } from "#plan/change.ts";
import { Refusal } from "#control/answers.ts";
import { changesQuery, read } from "#control/requests.ts";
import type { Action, Part } from "#plan/change.ts";
import type { Selection, Subject } from "#plan/selection.ts";
import type { Excerpts, Filter } from "#plan/stored.ts";
import type { RunRecord } from "#state/record.ts";
import { formatNumber } from "#text.ts";
import type { Fields } from "#console/html.ts";
import type { PlanFilter } from "#console/pages/plan.ts";

/* What the fields of the plan's forms mean. */

/** Opens what the plan of a run has for as long as `work` takes; undefined where it is no longer stored. */
export type ReadExcerpts = <Result>(
  run: RunRecord,
  filter: Filter,
  work: (excerpts: Excerpts) => Promise<Result>,
) => Promise<Result | undefined>;

/** The most principals that are left out one by one; a selection is part of the journal. */
const mostExcepted = 1000;

/** The fields of a query that were filled in. */
export function filled(query: unknown): Fields {
  return Object.fromEntries(Object.entries(query as Fields).filter(([, value]) => value !== "" && value !== undefined));
}

function valuesByName(form: URLSearchParams): Fields {
  const keys = ["kind", "action", "attribute", "source", "cause", "name", "group"];
  return filled(Object.fromEntries(keys.map((key) => [key, form.has(key) ? form.getAll(key) : undefined])));
}

function one(value: Fields[string]): string | undefined {
  return [value ?? []].flat()[0];
}

/** @throws {InputError} with a problem for each field that is wrong */
export function filterOf(values: Fields): PlanFilter {
  const { kind, action, attribute, source, cause, name, group } = values;
  const given = { kind: one(kind), action, attribute, source, cause, name, group };
  const query = read(changesQuery, withoutUndefined(given), "query");
  return {
    kind: query.kind,
    action: query.action ?? [],
    attribute: query.attribute ?? [],
    source: query.source ?? [],
    cause: query.cause ?? [],
    name: one(name),
    group: one(group),
  };
}

/** A name is a part of what is looked for, unless it says with `*` where anything may stand. */
export function toFilter({ kind, action, attribute, source, cause, name, group }: PlanFilter): Filter {
  return {
    kind: kind as Filter["kind"],
    actions: action.length === 0 ? undefined : (action as Filter["actions"]),
    aspects: attribute.length === 0 ? undefined : attribute,
    sources: source.length === 0 ? undefined : source,
    causes: cause.length === 0 ? undefined : cause,
    names: name === undefined ? undefined : [name.includes("*") ? name : `*${name}*`],
    groups: group === undefined ? undefined : [group],
  };
}

/** Undefined when nothing of the plan is left out by it. */
function onlyOf({ counts }: RunRecord, given: readonly string[] | undefined): Action[] | undefined {
  if (given === undefined) return undefined;
  const isPlanned = (action: Action): boolean => counts === undefined || countOf(counts, action) > 0;
  const only = actions.filter((action) => given.includes(action));
  return actions.filter(isPlanned).every((action) => only.includes(action)) ? undefined : only;
}

/** `user:ada`, `group:Sales`; a name without a kind is one of a plan. */
function subjectOf(text: string): Subject & { readonly guessed?: true } {
  const [, kind, name = ""] = /^(user|group):(.+)$/s.exec(text) ?? [];
  return kind === "user" || kind === "group" ? { kind, name } : { kind: "user", name: text, guessed: true };
}

/**
 * The part of a plan that a form names: by fields of its own, or by those of the plan's filters.
 * @throws {Refusal} 400 when what is left out would be named one by one, and is too much for that
 */
export async function selectionOf(read: ReadExcerpts, run: RunRecord, form: URLSearchParams): Promise<Selection> {
  const some = (key: string): string[] | undefined => (form.has(key) ? form.getAll(key) : undefined);
  const { action, cause, ...filter } = filterOf(valuesByName(form));
  // Without a box that is ticked, a form says nothing of its boxes.
  const boxes = form.has("part") ? form.getAll("only") : some("only");
  const only = onlyOf(run, action.length > 0 ? action : boxes);
  const byFilter = {
    only,
    onlyCauses: cause.length > 0 ? cause : some("onlyCause"),
    exceptCauses: some("exceptCause"),
  };
  const picked = await pickedOf(read, run, form, toFilter({ ...filter, action, cause }));
  if (picked !== undefined) return picked;
  const lines = (form.get("exceptNames") ?? "").split(/\r?\n/).map((line) => line.trim());
  const named = [...(some("except") ?? []), ...lines.filter((line) => line !== "")].map(subjectOf);
  const narrower = toFilter({ ...filter, action: [], cause: [] });
  const isNarrower = Object.values(narrower).some((each) => each !== undefined);
  const others = isNarrower ? await othersThan(read, run, byFilter, narrower) : [];
  const except = await planned(read, run, [...named, ...others]);
  const these = some("these")
    ?.map(subjectOf)
    .map(({ kind, name }) => ({ kind, name }));
  return { ...byFilter, these, except: except.length === 0 ? undefined : except };
}

/**
 * The part of a plan whose boxes are ticked, or all but that: `pick` is a change, `pickAll` all of a section that match the
 * filter. Undefined where the form has no such boxes.
 */
async function pickedOf(
  read: ReadExcerpts,
  run: RunRecord,
  form: URLSearchParams,
  filter: Filter,
): Promise<Selection | undefined> {
  const as = form.get("as");
  if (as !== "these" && as !== "except") return undefined;
  const single = form
    .getAll("pick")
    .map(subjectOf)
    .map(({ kind, name }) => ({ kind, name }));
  const parts = form.getAll("pickAll").flatMap((text) => {
    const [, name, kind] = /^(\w+)-(user|group)$/.exec(text) ?? [];
    const action = actions.find((each) => each === name);
    return action === undefined ? [] : [{ action, kind: kind as Part["kind"] }];
  });
  if (single.length === 0 && parts.length === 0)
    throw new Refusal(400, "no change is ticked: tick the changes you mean, then choose again");
  const found = await read(run, filter, (shown) => shown.subjects(parts, mostExcepted));
  const whole = found === undefined || found.count > mostExcepted ? actionsOf(run, parts, single, filter) : undefined;
  if (whole !== undefined) {
    const only = as === "these" ? whole : actions.filter((action) => !whole.includes(action));
    return { only };
  }
  const all = [...(found?.subjects ?? []), ...single];
  const distinct = new Map(all.map((subject) => [`${subject.kind}:${subject.name}`, subject]));
  if (distinct.size > mostExcepted || (found?.count ?? 0) > mostExcepted) throw tooMany(found?.count ?? distinct.size);
  return { [as]: [...distinct.values()] };
}

/** The actions of which all changes are ticked; undefined where it is not whole actions. */
function actionsOf(
  { counts }: RunRecord,
  parts: readonly Part[],
  single: readonly Subject[],
  filter: Filter,
): readonly Action[] | undefined {
  if (counts === undefined || single.length > 0 || Object.values(filter).some((each) => each !== undefined))
    return undefined;
  const isTicked = (action: Action, kind: Part["kind"]): boolean =>
    parts.some((part) => part.action === action && part.kind === kind);
  const ticked = actions.filter((action) => isTicked(action, "user") || isTicked(action, "group"));
  const isWhole = (action: Action): boolean =>
    (["user", "group"] as const).every((kind) => (counts[`${kind}s`][action] ?? 0) === 0 || isTicked(action, kind));
  return ticked.every(isWhole) ? ticked : undefined;
}

function tooMany(count: number): Refusal {
  return new Refusal(
    400,
    `${formatNumber(count)} users and groups can only be named one by one: at most ${formatNumber(mostExcepted)}. Choose a part by its action or its cause`,
  );
}

/** A name that a form leaves out, and the plan does not have. */
export class UnknownName extends Refusal {
  constructor(name: string, suggestion: string | undefined) {
    const meant = suggestion === undefined ? "" : `; did you mean ${JSON.stringify(suggestion)}?`;
    super(400, `the plan does not change anybody called ${JSON.stringify(name)}${meant}`);
  }
}

/** What of a selection does not match a filter. */
async function othersThan(
  read: ReadExcerpts,
  run: RunRecord,
  selection: Selection,
  filter: Filter,
): Promise<readonly Subject[]> {
  const found = await read(run, { selection }, (selected) => selected.others(filter, mostExcepted));
  if (found === undefined) return [];
  if (found.count > mostExcepted) throw tooMany(found.count);
  return found.subjects;
}

/** The names that the plan changes: one without its kind may stand for a user or a group. */
async function planned(
  read: ReadExcerpts,
  run: RunRecord,
  subjects: readonly (Subject & { readonly guessed?: true })[],
): Promise<Subject[]> {
  const certain = subjects.filter(({ guessed }) => guessed !== true).map(({ kind, name }) => ({ kind, name }));
  const names = subjects.filter((subject) => subject.guessed === true).map(({ name }) => name);
  if (names.length === 0) return certain;
  const found = (await read(run, {}, (all) => all.called(names))) ?? [];
  const missing = names.find((name) => !found.some((subject) => subject.name === name));
  if (missing !== undefined) throw new UnknownName(missing, await read(run, {}, (all) => all.likest(missing)));
  return [...certain, ...found];
}

/** The fields that a schema may leave out, left out. */
export function withoutUndefined(values: object): object {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
