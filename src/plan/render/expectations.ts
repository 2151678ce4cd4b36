import { isUpdate, textsOf } from "#plan/change.ts";
import type { Cause } from "#plan/causes.ts";
import type { Change } from "#plan/change.ts";
import type { ExpectationCheck, Violation } from "#plan/expectations.ts";
import { excerptDifference, formatName, formatNumber, pluralize, quote, visible } from "#text.ts";

/** How many of those who break an expectation are shown. */
const shown = 10;

/** One expectation for a person. */
export interface ExpectationLine {
  /** `bad`: the plan breaks it. `waiting`: it is broken, and does not hold the plan. `quiet`: it is met. */
  readonly tone: "bad" | "waiting" | "quiet";
  readonly text: string;
  /** The principals that break it and how they change, a line each. They hold names. */
  readonly details: readonly string[];
}

/** The causes of the plan, if they are shown with it; `isPlan` is false where there is no plan. */
interface LineContext {
  readonly causes?: readonly Cause[] | undefined;
  readonly isPlan?: boolean;
}

/** Every expectation for a person, the met ones, too, in their order. */
export function eachExpectation(
  checks: readonly ExpectationCheck[] = [],
  { causes, isPlan = true }: LineContext = {},
): (ExpectationLine & { readonly check: ExpectationCheck })[] {
  const ids = idsOf(causes);
  return checks.map((check) => {
    const line = lineOf(check, ids, isPlan);
    return { ...line, check, details: [...line.details, ...neverSetLines(check)] };
  });
}

function idsOf(causes: readonly Cause[] = []): ReadonlySet<string> {
  return new Set(causes.filter(({ kind }) => kind !== "first").map(({ id }) => id));
}

function neverSetLines({ neverSet = [] }: ExpectationCheck): string[] {
  return neverSet.map((attribute) => `entry.${visible(attribute)} is set in no record: is that the attribute's name?`);
}

/** Expectations for a person: the broken ones, and how many are met. */
export function expectationLines(
  checks: readonly ExpectationCheck[] = [],
  { causes, isPlan = true }: LineContext = {},
): ExpectationLine[] {
  const ids = idsOf(causes);
  const met = checks.filter(({ state }) => state === "met").length;
  return [
    ...checks.filter(({ state }) => state !== "met").map((check) => lineOf(check, ids, isPlan)),
    ...(met === 0 ? [] : [{ tone: "quiet" as const, text: `${pluralize(met, "expectation")} met`, details: [] }]),
    ...checks.flatMap((check) =>
      neverSetLines(check).map((line) => ({
        tone: "waiting" as const,
        text: `${quote(check.name)}: ${line}`,
        details: [],
      })),
    ),
  ];
}

function lineOf(check: ExpectationCheck, causes: ReadonlySet<string>, isPlan: boolean): ExpectationLine {
  const { name, state, otherwise } = check;
  const title = `${quote(name)}: `;
  switch (state) {
    case "unknown":
      return { tone: "quiet", text: `${title}not evaluated, since an undo does not read the sources`, details: [] };
    case "met":
    case "accepted":
      return { tone: "quiet", text: title + brokenBy(check), details: [] };
    case "tripped":
    case "overridden":
    case "broken":
    default: {
      const verdicts = {
        tripped: otherwise === "approve" ? "a person must approve the plan" : "holds the plan",
        overridden: "overridden",
        broken: otherwise === "warn" ? "a warning" : "not by this plan",
      } as const;
      const tone = state === "tripped" ? "bad" : "waiting";
      const verdict = isPlan ? `: ${verdicts[state]}` : "";
      return { tone, text: `${title}${brokenBy(check)}${verdict}`, details: detailsOf(check, causes) };
    }
  }
}

/** `2 users break it, 1 of them new, at most 0 may`; `no user breaks it`. */
function brokenBy({ over, expect, violations, already, most, numbers }: ExpectationCheck): string {
  const isMet = violations === 0;
  if (over === undefined) {
    const kinds = (["users", "groups"] as const).filter((kind) => new RegExp(`\\b${kind}\\b`).test(expect));
    const moves = kinds.map((kind) => {
      const { before = 0, after = 0 } = numbers?.[kind] ?? {};
      const to = before === after ? "" : `${formatNumber(before)} → `;
      return `${to}${pluralize(after, kind.slice(0, -1))}`;
    });
    const figures = moves.length === 0 ? "" : ` (${moves.join(", ")})`;
    return `${visible(expect)} is ${isMet ? "" : "not "}true${figures}`;
  }
  const one = over.slice(0, -1);
  if (isMet) return `no ${one} breaks it`;
  const fresh = violations - already;
  const since = already === 0 ? "" : fresh === 0 ? ", in the target already" : `, ${formatNumber(fresh)} of them new`;
  const bound = most === 0 ? "" : `, at most ${formatNumber(most)} may`;
  return `${pluralize(violations, one)} ${violations === 1 ? "breaks" : "break"} it${since}${bound}`;
}

function detailsOf({ examples, violations, already }: ExpectationCheck, causes: ReadonlySet<string>): string[] {
  const some = examples.slice(0, shown);
  const isMixed = already > 0 && already < violations;
  const rest = violations - some.length;
  const lines = some.map((violation) => {
    const age = isMixed ? (violation.isNew ? "new      " : "already  ") : "";
    const why = [violation.reason, violation.isNew ? whyOf(violation, causes) : undefined].filter(
      (each) => each !== undefined,
    );
    return `${age}${formatName(violation.name)}${why.length === 0 ? "" : `: ${visible(why.join("; "))}`}`;
  });
  return rest > 0 && some.length > 0 ? [...lines, `… and ${formatNumber(rest)} more`] : lines;
}

/** What the plan changes of somebody who breaks an expectation anew; undefined: nothing that is known. */
function whyOf({ change, joining, leaving }: Violation, known: ReadonlySet<string>): string | undefined {
  const members = [
    ...(joining === undefined ? [] : [`${namesOf(joining)} ${joining.count === 1 ? "joins" : "join"}`]),
    ...(leaving === undefined ? [] : [`${namesOf(leaving)} ${leaving.count === 1 ? "leaves" : "leave"}`]),
  ];
  const parts = [...(change === undefined ? [] : partsOf(change)), ...members];
  if (parts.length === 0) return undefined;
  const causes = change?.causes?.filter((id) => known.has(id)) ?? [];
  return `${parts.join(", ")}${causes.length === 0 ? "" : ` (${causes.join(", ")})`}`;
}

function namesOf({ count, names }: NonNullable<Violation["joining"]>): string {
  const more = count - names.length;
  return `${names.map(formatName).join(" and ")}${more > 0 ? ` and ${formatNumber(more)} more` : ""}`;
}

/** How many groups of a change are named. */
const groupsShown = 5;

function partsOf({ action, attributes, groupsAdded, groupsRemoved }: Change): string[] {
  const edits = isUpdate(action) ? attributes : [];
  return [
    ...(action === "create" ? ["is created"] : []),
    ...edits.map((each) => {
      const { attribute } = each;
      const { from, to } = textsOf(each);
      const [before, after] = excerptDifference(from, to);
      return `${attribute} ${from === undefined ? "(unset)" : formatName(before)} → ${to === undefined ? "(unset)" : formatName(after)}`;
    }),
    ...groupsOf("joins", groupsAdded),
    ...groupsOf("leaves", groupsRemoved),
  ];
}

function groupsOf(verb: string, groups: readonly string[]): string[] {
  if (groups.length === 0) return [];
  const more = groups.length - groupsShown;
  const names = groups.slice(0, groupsShown).map(formatName).join(" ");
  return [`${verb} ${names}${more > 0 ? ` and ${formatNumber(more)} more` : ""}`];
}
