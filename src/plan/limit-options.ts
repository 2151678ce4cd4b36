import { z } from "zod";
import type { Attributes } from "#principals/attributes.ts";
import type { Bound, DriftRules, Limits } from "./limits.ts";
import * as values from "#values.ts";

/** The longest name of an expectation, in characters. */
const longestName = 80;

const percentage = values
  .text("a percentage like 5%")
  .regex(/^\d{1,4}(?:\.\d{1,3})?%$/, { error: "expected a percentage like 5% or 0.5%, a number, or none" });
const per = z.enum(["run", "day"]);

const parts = {
  count: values.notNegative.exactOptional().describe("The most, as a number."),
  percent: z
    .union([z.number().min(0, { error: "expected a number, at least 0" }), percentage])
    .exactOptional()
    .describe("The most, in percent of what the sync manages in the target."),
  per: per.exactOptional().describe("run: count one run. day: count the last 24 hours, including this run."),
};
const bound = z.union([z.literal("none"), values.notNegative, percentage, z.strictObject(parts)], {
  error: "expected a percentage like 5%, a number like 20, { count, percent, per }, or none",
});
type BoundInput = z.infer<typeof bound>;

/** The bounds where nothing is said. */
const usual = {
  deletes: "10%",
  suspends: "10%",
  updates: "50%",
  creates: "none",
  membershipsLost: "25%",
  emptied: "none",
  blanked: "10%",
  shrink: "20%",
  quarantined: "20%",
  heldNames: "20%",
} as const;

const noShare = "expected a percentage like 50%, a number like 20, or none";
/** What a single group may lose where nothing is said. */
const usualPerGroup = "50%";
/** The bound on lost memberships, which has one for single groups as well. */
const losses = z.union(
  [
    z.literal("none"),
    values.notNegative,
    percentage,
    z.strictObject({
      ...parts,
      percent: parts.percent.describe(
        "The most, in percent of what the sync manages in the target. 25 where `count` is absent, too.",
      ),
      perGroup: z
        .union([z.literal("none"), values.notNegative, percentage], { error: noShare })
        .refine((value) => !(percentOf(value) > 100), { error: "expected at most 100% (`none` sets no limit)" })
        .prefault(usualPerGroup)
        .describe("The most members that any single group may lose: a percentage of its members, or a number."),
      floor: values.notNegative
        .exactOptional()
        .describe("Takes the place of `limits.floor` here, for single groups too."),
    }),
  ],
  { error: "expected a percentage like 5%, a number like 20, { count, percent, per, perGroup, floor }, or none" },
);

/** A bound on what can be at most everything: a greater share would never be reached. */
const share = bound.refine((value) => !(percentOf(value) > 100), {
  error: "expected at most 100% (`none` sets no limit)",
});
const shareOfLosses = losses.refine((value) => !(percentOf(value) > 100), {
  error: "expected at most 100% (`none` sets no limit)",
});

/** NaN where there is none. Checked with the rest, so that the value may be anything. */
function percentOf(value: unknown): number {
  const given = typeof value === "object" && value !== null && "percent" in value ? String(value.percent) : value;
  return Number.parseFloat(typeof given === "string" && (given.endsWith("%") || given !== value) ? given : "");
}

/** `syncs.NAME.limits`. The defaults let a day's ordinary changes pass, and hold what looks like an accident. */
export const limits = values.section({
  deletes: share.prefault(usual.deletes).describe("How many users, and how many groups, may be deleted."),
  suspends: share
    .prefault(usual.suspends)
    .describe("How many users may be suspended, of those who are active in the target."),
  updates: share.prefault(usual.updates).describe("How many users, and how many groups, may be changed."),
  creates: bound.prefault(usual.creates).describe("How many users, and how many groups, may be created."),
  membershipsLost: shareOfLosses
    .prefault(usual.membershipsLost)
    .describe(
      "How many memberships the remaining users and groups may lose, and with `perGroup` how many members a single group.",
    ),
  emptied: share.prefault(usual.emptied).describe("How many groups may lose all their members, for whatever reason."),
  blanked: share
    .prefault(usual.blanked)
    .describe("How many values may become empty, such as mail addresses; a percentage also of each attribute."),
  shrink: share
    .prefault(usual.shrink)
    .describe("By how many users, and how many groups, a source may shrink since its last good read."),
  quarantined: share
    .prefault(usual.quarantined)
    .describe("How many users, and how many groups, of a source may be quarantined."),
  heldNames: share
    .prefault(usual.heldNames)
    .describe("How many users, and how many groups, may stay as they are because their names are held."),
  minUsers: values.atLeastOne.exactOptional().describe("The fewest users all sources together must have in scope."),
  minGroups: values.atLeastOne.exactOptional().describe("The fewest groups all sources together must have in scope."),
  floor: values.notNegative
    .prefault(10)
    .describe("A percentage never trips on this many changes or fewer, but a floor never lets more than half go."),
  per: per
    .prefault("day")
    .describe("The period that bounds apply to. run: one run. day: the last 24 hours, including this run."),
  action: z
    .enum(["hold", "apply-the-rest"])
    .prefault("hold")
    .describe(
      "What to do when a limit trips. hold: apply nothing. apply-the-rest: hold back only the changes that the limit is about.",
    ),
});

type From = string | { readonly source: string; readonly minUsers?: number; readonly minGroups?: number };

/** The limits of a sync, without those that are `none`, and each with its period. */
export function buildLimits(input: z.infer<typeof limits>, from: readonly From[]): Limits {
  const {
    deletes,
    suspends,
    updates,
    creates,
    membershipsLost,
    emptied,
    blanked,
    shrink,
    quarantined,
    heldNames,
    per,
    ...rest
  } = input;
  const bounds = { deletes, suspends, updates, creates, emptied, blanked, shrink, quarantined, heldNames };
  const sources = from.flatMap((each) =>
    typeof each === "string" ? [] : [[each.source, { minUsers: each.minUsers, minGroups: each.minGroups }] as const],
  );
  return {
    ...Object.fromEntries(
      Object.entries(bounds).map(([name, value]) => [name, boundOf(value, per, usual[name as keyof typeof bounds])]),
    ),
    ...lossBounds(membershipsLost, per),
    ...rest,
    sources: Object.fromEntries(sources),
  };
}

/** `none` sets no limit on single groups either. */
function lossBounds(
  value: z.infer<typeof losses>,
  period: "run" | "day",
): Pick<Limits, "membershipsLost" | "membershipsLost.perGroup"> {
  if (value === "none") return {};
  const section: Partial<Extract<typeof value, object>> = typeof value === "object" ? value : {};
  const { perGroup = usualPerGroup, floor, ...given } = section;
  const own = floor === undefined ? {} : { floor };
  const of = boundOf(typeof value === "object" ? given : value, period, usual.membershipsLost);
  const ofGroup = boundOf(perGroup, given.per ?? period, usualPerGroup);
  return {
    membershipsLost: of === undefined ? undefined : { ...of, ...own },
    "membershipsLost.perGroup": ofGroup === undefined ? undefined : { ...ofGroup, ...own },
  };
}

/**
 * No percentage is 0: it would be raised to the floor, and `0%` is meant to be nothing at all.
 * @param otherwise the bound where `value` says only for how long it counts
 */
function boundOf(value: BoundInput, period: "run" | "day", otherwise: "none" | `${number}%`): Bound | undefined {
  if (value === "none") return undefined;
  const given: Exclude<BoundInput, string | number> =
    typeof value === "number" ? { count: value } : typeof value === "string" ? { percent: value } : value;
  const { count, per = period } = given;
  const isWhole = count !== undefined || given.percent !== undefined;
  if (!isWhole && otherwise === "none") return undefined;
  const percent = isWhole ? given.percent : otherwise;
  const share = percent === undefined ? undefined : Number(String(percent).replace("%", ""));
  return share === 0
    ? { count: 0, per }
    : { ...(count !== undefined && { count }), ...(share !== undefined && { percent: share }), per };
}

/** What drift is about, besides the attributes of the target. */
const otherDrift = ["memberships", "existence"];

/** The parts of `users.svc-*.mail`: names may contain dots. */
export function driftPattern({ all }: Attributes): RegExp {
  const parts = [...all.map(({ name }) => name), ...otherDrift].map((name) => name.replaceAll(".", "\\."));
  return new RegExp(`^(users|groups)\\.(.+)\\.(\\*|${parts.join("|")})$`, "s");
}

const driftPolicy = z.enum(["revert", "leave", "hold"]);

/** `syncs.NAME.drift`. */
export function drift(attributes: Attributes) {
  const parts = [...attributes.all.map(({ name }) => name), ...otherDrift];
  const ignored = values
    .text("a pattern like users.svc-*.mail")
    .regex(driftPattern(attributes), { error: `expected users or groups, a name, and ${parts.join(", ")} or *` });
  const ignore = z
    .array(ignored, { error: 'expected a list like ["users.svc-*.mail"]' })
    .prefault([])
    .describe(
      "Changes that stay and are no drift, such as users.svc-*.mail or users.guest-*.memberships (the groups that they are in).",
    );
  const policy = driftPolicy.prefault("revert").describe("The same as naming it alone.");
  return z
    .union([driftPolicy, z.strictObject({ policy, ignore })], {
      error: "expected revert, leave, hold or { policy, ignore }",
    })
    .prefault("revert")
    .transform((value): DriftRules => (typeof value === "string" ? { policy: value, ignore: [] } : value));
}

const nameOfExpectation = `a name of at most ${longestName} characters, without commas`;
const expectation = z
  .strictObject({
    name: values
      .text(nameOfExpectation)
      .regex(/^(?! )[^,\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+(?<! )$/u, { error: `expected ${nameOfExpectation}` })
      .max(longestName, { error: `expected ${nameOfExpectation}` })
      .describe("The expectation in words, as reports show it and overrides name it."),
    over: z
      .enum(["users", "groups"])
      .exactOptional()
      .describe("Evaluate `expect` for each user or each group. Absent: once, for how many there are."),
    expect: values
      .text('a CEL expression like !("Finance" in groups)')
      .describe("A CEL expression that is true where all is well."),
    otherwise: z
      .enum(["hold", "approve", "warn"])
      .prefault("hold")
      .describe(
        "What to do with a plan that breaks it. hold: hold it, as a limit does. approve: require approval. warn: say so.",
      ),
    most: values.notNegative.prefault(0).describe("How many users or groups may break it."),
  })
  .refine(({ over, most }) => over !== undefined || most === 0, {
    path: ["most"],
    error: "there is nothing to count without `over`; remove it",
  });

/** `syncs.NAME.expectations`. */
export const expectations = z
  .array(expectation, { error: "expected a list of expectations like [{ name, over, expect }]" })
  .superRefine((all, context) => {
    for (const [index, { name }] of all.entries())
      if (all.findIndex((each) => each.name === name) < index)
        context.addIssue({
          code: "custom",
          path: [index, "name"],
          message: "named twice; give it another name",
          input: name,
        });
  })
  .prefault([]);
