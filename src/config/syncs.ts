import { wordsOf } from "#text.ts";
import { z } from "zod";
import * as values from "#values.ts";
import type { Attribute, Attributes } from "#principals/attributes.ts";
import { acceptedBy } from "#principals/rules.ts";
import type { Kind, PrincipalValue } from "#principals/principal.ts";
import type { AttributeRule } from "#principals/rules.ts";
import { deletions, renames } from "#plan/departure-options.ts";
import { drift, expectations, limits } from "#plan/limit-options.ts";
import { nextSlot } from "#daemon/cron.ts";

/** A CEL expression over `entry`. */
const expression = (example: string) => values.text(`a CEL expression like ${example}`);

/** An expression, alone or with what to do when the source has no value. */
function attributeRule(attribute: Attribute): z.ZodType<AttributeRule> {
  const { name, type, required, usual = name } = attribute;
  const example = `entry.${usual}`;
  return z
    .union([
      expression(example),
      z.strictObject({
        value: expression(example).exactOptional().describe("A CEL expression. Absent: the source never has a value."),
        absent: required === true ? absentName : absences[type],
      }),
    ])
    .describe(
      `The ${wordsOf(name)}: ${acceptedBy(attribute).wanted}.${required === true ? " The service requires it." : ""}`,
    );
}

/** A rule for each attribute of a kind. */
function attributeRules(attributes: Attributes, kind: Kind): Record<string, z.ZodType<AttributeRule | undefined>> {
  return Object.fromEntries(
    attributes.of(kind).map((each) => {
      const rule = attributeRule(each);
      return [each.name, each.required === true ? rule : rule.exactOptional()];
    }),
  );
}

const absent = <Value extends string | boolean | string[]>(usual: z.ZodType<Value>, example: string) =>
  z
    .union([
      z.literal("keep"),
      z.literal("clear"),
      z.strictObject({ default: usual.describe("The value to use when the source has none.") }),
    ])
    .describe(
      `What to do when the source has no value. keep: leave the target's value. clear: unset it. Or { default: ${example} }.`,
    );
const absences = {
  text: absent(values.text("a text"), "a text"),
  boolean: absent(z.boolean(), "true or false"),
  texts: absent(z.array(values.text("a text"), { error: "expected a list of texts" }), "a list of texts"),
} as const;
const absentName = z
  .union([
    z.literal("keep"),
    z.strictObject({ default: values.principalName.describe("The value to use when the source has none.") }),
  ])
  .describe(
    "What to do when the source has no value. keep: leave the target's value, or use the name if there is none. Or { default: a text }.",
  );
/** Names of groups. */
const groupList = z.array(values.principalName, { error: 'expected a list of group names like ["everyone"]' });

/** How many people. */
const people = values.wholeNumber(1, 10, "expected a whole number of people, from 1 to 10");

const approvalRules = z
  .strictObject({
    required: z
      .boolean()
      .prefault(true)
      .describe("true: every plan waits for approval. false: only a plan beyond a limit does."),
    people: people.prefault(1).describe("How many different people must approve a plan."),
    beyondLimits: people
      .exactOptional()
      .describe("How many must approve a plan beyond a limit. Absent: as many as for any other."),
    notTheRequester: z
      .boolean()
      .prefault(false)
      .describe("true: the person who asked for a run cannot approve its plan."),
  })
  .refine(({ people, beyondLimits = people }) => beyondLimits >= people, {
    path: ["beyondLimits"],
    error: "a plan beyond a limit needs at least as many people as any other",
  });

/** The rules of a kind, besides those for its attributes. */
const usualRules = {
  include: expression('entry.status == "active"')
    .exactOptional()
    .describe("True for the entries to include. Absent: all."),
  exclude: expression('entry.type == "service"')
    .exactOptional()
    .describe("True for the entries to leave out, of those included."),
  name: z
    .union(
      [
        expression("lower(entry.uid)"),
        z.strictObject({
          value: expression("lower(entry.uid)").describe("A CEL expression: the name."),
          unique: values
            .text("a CEL expression like name + string(n)")
            .describe(
              "The name where that one is taken: a CEL expression over name and n, a number from 2. Names are kept, and not given to others while they are owned.",
            ),
        }),
      ],
      { error: "expected a CEL expression like lower(entry.uid), or { value, unique }" },
    )
    .describe("The name that identifies the principal, or { value, unique } to tell those of one name apart."),
  groups: expression('["everyone"]').exactOptional().describe("A list of further groups to put it into directly."),
};

/** Names of the source's groups, with wildcards. */
const groupPatterns = z
  .array(values.text("the name of a group of the source, with * for any characters"), {
    error: 'expected a list like ["app-sales*"]',
  })
  .min(1, { error: "expected at least one name of a group" })
  .exactOptional();

/** Which entries the rules look at at all, by the source's groups. Not expressions. */
const userScope = {
  onlyMembersOf: groupPatterns.describe(
    "Only users who are in one of these groups of the source; * stands for any characters. Absent: all.",
  ),
  notMembersOf: groupPatterns.describe("Leave out the users who are in one of these groups of the source."),
  nested: z
    .boolean()
    .exactOptional()
    .describe(
      "true: members of groups inside these groups, however deep, count too. false, or absent: only direct members.",
    ),
};

/** The same for groups. */
const groupScope = {
  onlyBelow: groupPatterns.describe(
    "Only these groups of the source and the groups inside them, however deep; * stands for any characters. Absent: all.",
  ),
  notBelow: groupPatterns.describe("Leave out these groups of the source and the groups inside them."),
};

/** The keys of rules for a kind: what is common to all targets, and the attributes that one declares. */
export function ruleKeysOf(attributes: Attributes, kind: Kind): string[] {
  return [...Object.keys(usualRules), ...attributes.of(kind).map(({ name }) => name)];
}

/** Expressions for users. */
const userRules = (attributes: Attributes) => {
  const { groups, ...first } = usualRules;
  return z.strictObject({ ...userScope, ...first, ...attributeRules(attributes, "user"), groups });
};

/** Expressions for groups. */
const groupRules = (attributes: Attributes) => {
  const { groups, ...first } = usualRules;
  const rename = z
    .record(values.principalName, values.principalName)
    .exactOptional()
    .describe("Other names for groups: from the name that the rules give to the one to use.");
  return z.strictObject({ ...groupScope, ...first, ...attributeRules(attributes, "group"), groups, rename });
};

/** An expression over `value`. */
const overValue = values.text(`a CEL expression like "Site " + value`);

/** `syncs.NAME.groupsFromRules`. */
function groupsFromRules(attributes: Attributes) {
  const all = attributes.of("group");
  const rules = all.map((attribute): [string, z.ZodType<string | undefined>] => {
    const words = `The ${wordsOf(attribute.name)}: a CEL expression over \`value\`, the group's name.`;
    const absent = attribute.required === true ? "the name" : "none";
    return [attribute.name, overValue.exactOptional().describe(`${words} Absent: ${absent}.`)];
  });
  const form = `{ ${all.map(({ name }) => name).join(", ")} }`;
  return z
    .union([z.enum(["refuse", "create"]), z.strictObject(Object.fromEntries(rules))], {
      error: `expected refuse, create or ${form}`,
    })
    .prefault("refuse")
    .describe(
      `What to do when a rule \`groups\` names a group that no source has. refuse: fail the run, unless the target has it. create: create it, and delete it once it is empty. ${form}: create it with these.`,
    );
}

const staticValues: Readonly<Record<Attribute["type"], z.ZodType<PrincipalValue>>> = {
  text: z.string({ error: "expected a text" }),
  boolean: z.boolean(),
  texts: z.array(values.text("a text"), { error: "expected a list of texts" }),
};

/** A group that exists whatever the sources say. */
function staticGroup(attributes: Attributes) {
  const own = attributes
    .of("group")
    .map(({ name, type, required }): [string, z.ZodType<PrincipalValue | undefined>] => {
      const value = required === true ? values.principalName : staticValues[type];
      const absent = required === true ? " Absent: the same as the name." : "";
      return [name, value.exactOptional().describe(`The ${wordsOf(name)}.${absent}`)];
    });
  return values.section({
    ...Object.fromEntries(own),
    groups: groupList.prefault([]).describe("Names of the groups it is directly in."),
  });
}

export const cron = values.text('a cron expression like "*/15 * * * *"').superRefine((value, context) => {
  const problem = cronProblem(value);
  if (problem !== undefined) values.addProblem(context, [], problem);
});

const cronFields = [
  ["second", "0 to 59"],
  ["minute", "0 to 59"],
  ["hour", "0 to 23"],
  ["day", "1 to 31"],
  ["month", "1 to 12 or jan to dec"],
  ["weekday", "0 to 7 or sun to sat"],
] as const;

const anyCron = 'expected a cron expression like "*/15 * * * *" (minute, hour, day, month, weekday)';

/**
 * What is wrong with a cron expression: five fields, six with seconds first, or a nickname like `@daily`. Not `H`, whose
 * random value changes with every start.
 */
function cronProblem(value: string): string | undefined {
  const fields = value.trim().split(/\s+/);
  const isNickname = fields.length === 1 && value.startsWith("@");
  if (!isNickname && ![5, 6].includes(fields.length)) return anyCron;
  if (isSchedule(value) && !fields.some((field) => /(?:^|,)H/i.test(field))) return undefined;
  if (isNickname) return anyCron;
  for (const [place, field] of fields.entries()) {
    const [name, range] = cronFields[place + cronFields.length - fields.length] ?? cronFields[0];
    const alone = fields.map((_, other) => (other === place ? field : "*")).join(" ");
    if (/(?:^|,)H/i.test(field) || !isSchedule(alone))
      return `${JSON.stringify(field)} is not ${name === "hour" ? "an" : "a"} ${name}: expected ${range}, * or */2, also as a list or a range`;
  }
  return "expected a day that comes at some time";
}

function isSchedule(expression: string): boolean {
  try {
    nextSlot({ expression }, Date.now());
    return true;
  } catch {
    return false;
  }
}

/** When a sync runs, in `syncs.NAME`. */
const schedule = {
  schedule: cron.exactOptional().describe("When to run, as a cron expression. Absent: only on demand."),
  timezone: values.timezone.exactOptional().describe("The schedule's time zone. Absent: the system's."),
  jitter: values.duration
    .exactOptional()
    .describe("Start each run after a random delay of at most this long. Absent: at once."),
  catchUp: z
    .boolean()
    .prefault(true)
    .describe("true: run once for the slots missed while Rollcall could not run. false: wait for the next slot."),
  retries: values
    .section({
      attempts: values
        .wholeNumber(0, 100)
        .prefault(3)
        .describe(
          "How often to retry a run that failed because something did not answer, or a source changed while it was read.",
        ),
      first: values.duration
        .prefault("1m")
        .describe("The wait before the first retry; it doubles with each further one."),
      most: values.duration.prefault("15m").describe("The longest wait between retries."),
    })
    .describe("How to retry failed runs."),
  overdueAfter: values.duration
    .exactOptional()
    .describe(
      "How long the sync may go without a success before people are notified and /readyz fails. Absent: forever.",
    ),
};

const patterns = z.array(values.text("a name, with * for any characters"), { error: 'expected a list like ["svc-*"]' });

const sourceName = values.text("the name of a source");
const optionalSource = z.strictObject({
  source: sourceName.describe("The name of a source."),
  optional: z
    .boolean()
    .prefault(false)
    .describe(
      "true: when the source cannot be read, leave everything that came from it unchanged. false: fail the run.",
    ),
  minUsers: values.atLeastOne.exactOptional().describe("The fewest users the source must have in scope (a limit)."),
  minGroups: values.atLeastOne.exactOptional().describe("The fewest groups the source must have in scope (a limit)."),
});

/** Where from, where to and when. */
const whereAndWhen = {
  from: z
    .array(z.union([sourceName, optionalSource]), { error: "expected a list of sources like [corp]" })
    .min(1, { error: "expected at least one source" })
    .describe("The sources to read, by name. When entries are joined, the first source wins."),
  join: z
    .strictObject({
      users: expression("lower(entry.mail)").exactOptional().describe("The key that joins users from several sources."),
      groups: expression("lower(entry.cn)").exactOptional().describe("The key that joins groups from several sources."),
    })
    .exactOptional()
    .describe("How to match a user or group across sources: entries with the same key become one. Absent: no joining."),
  to: values.text("the name of a target").describe("The target to write to, by name."),
  ...schedule,
};

/** What a run may do, and how. */
const how = (attributes: Attributes) => ({
  manage: z
    .enum(["owned", "everything"])
    .prefault("owned")
    .describe("owned: manage only what this sync created or adopted. everything: manage all that is not protected."),
  causes: z
    .boolean()
    .prefault(true)
    .describe(
      "Whether plans say why each change is there. For that, the values that rules read of every record are stored with the last applied run.",
    ),
  expectations: expectations.describe(
    "What must be true of the users and groups that a run leaves in the target. Every plan is checked, dry runs too.",
  ),
  memberships: values
    .section({
      keepManual: z
        .union([z.boolean(), patterns], { error: 'expected true, false or a list of groups like ["team-*"]' })
        .prefault(false)
        .describe(
          "Whether to keep manual memberships in the sync's groups. true: in all groups. A list: in groups of these names; * stands for any characters. Needs `causes`.",
        ),
    })
    .describe("Memberships in groups of the sync."),
  protect: values
    .section({
      users: patterns.prefault([]).describe("Names of users to leave alone; * stands for any characters."),
      groups: patterns.prefault([]).describe("Names of groups to leave alone; * stands for any characters."),
    })
    .describe("Users and groups that the sync never touches."),
  deletions: deletions(attributes).describe("When to suspend and to delete those who left the sources."),
  renames: renames(attributes).describe(
    "When a known record gets another name. inPlace: rename the account, in targets that can, the default there. apply, or recreate: delete the old name and create the new one. hold: keep the old name.",
  ),
  reusedNames: z
    .enum(["hold", "apply"])
    .prefault("hold")
    .describe(
      "When a known name now belongs to another person's record. hold: leave it unchanged. apply: give it to the new record.",
    ),
  limits: limits.describe("The most a run may change, and the least it must find."),
  approval: z
    .union([z.enum(["required", "automatic", "automatic-within-limits"]), approvalRules], {
      error:
        "expected required, automatic, automatic-within-limits, or { required, people, beyondLimits, notTheRequester }",
    })
    .prefault("automatic")
    .describe(
      "Who approves a plan. required: always a person. automatic: nobody; a plan beyond the limits is held. " +
        "automatic-within-limits: a person, but only when a limit is tripped. Or how many people.",
    ),
  approvalExpires: values.duration.prefault("24h").describe("How long a plan can wait for approval."),
  defaultPassword: z
    .string({ error: "expected a password" })
    .exactOptional()
    .describe("The password of newly created users. Absent: a random one that nobody knows."),
  export: z
    .strictObject({
      database: values
        .text("the name of a database")
        .describe("A database of the target that has the tables of config/sample/tables.sql."),
      schema: values
        .text("the name of a schema")
        .exactOptional()
        .describe("The schema of the tables. Absent: the database's default schema."),
    })
    .exactOptional()
    .describe("Where to export the target's users, groups and memberships after each run that changed them."),
  heartbeat: values.webAddress.exactOptional().describe("A URL to request after each success of the sync."),
});

/** `syncs.NAME` of a sync whose target declares these attributes. */
export function syncOf(attributes: Attributes) {
  return z.strictObject({
    ...whereAndWhen,
    users: userRules(attributes).describe("How entries become users: CEL expressions over `entry`."),
    groups: groupRules(attributes)
      .exactOptional()
      .describe("How entries become groups. Absent: the sources' groups are left out."),
    staticGroups: values
      .named(staticGroup(attributes), values.principalName)
      .describe("Groups that always exist, whatever the sources contain, by name."),
    defaultGroups: groupList.prefault([]).describe("Names of groups to put every user into directly."),
    groupsFromRules: groupsFromRules(attributes),
    drift: drift(attributes).describe(
      "What to do when a value was changed in the target and not in the source. revert: change it back. leave: keep it until the source changes that value. hold: hold the run, as a limit does. Needs `causes`.",
    ),
    ...how(attributes),
  });
}
export type Sync = z.infer<ReturnType<typeof syncOf>>;

/** What of a sync says what becomes of an entry. */
export function rulesOf(attributes: Attributes) {
  return syncOf(attributes).pick({
    join: true,
    users: true,
    groups: true,
    staticGroups: true,
    defaultGroups: true,
    groupsFromRules: true,
  });
}
export type RulesOfSync = z.infer<ReturnType<typeof rulesOf>>;
