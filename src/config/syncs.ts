import { CronExpressionParser } from "cron-parser";
import { z } from "zod";
import * as values from "#values.ts";
import { limits } from "#plan/limit-options.ts";

/** An expression over `entry`, which gives what the key is about. */
const expression = (example: string) => values.text(`a CEL expression like ${example}`);

const byDefault = (text: z.ZodType<string>) =>
  z.strictObject({ default: text.describe("The value where the source has none.") });

/** An expression, or one beside what it means that the source has no value. */
const attribute = <Absence extends z.ZodType>(example: string, absence: Absence) =>
  z.union([
    expression(example),
    z.strictObject({
      value: expression(example).exactOptional().describe("A CEL expression. Absent: there never is a value."),
      absent: absence,
    }),
  ]);

const absentText = z
  .union([z.literal("keep"), z.literal("clear"), byDefault(values.text("a text"))])
  .describe("What no value means. keep: what the target has stays. clear: it is unset. Or { default: a text }.");
const absentName = z
  .union([z.literal("keep"), byDefault(values.principalName)])
  .describe("What no value means. keep: what the target has stays, or else the name. Or { default: a text }.");
/** Names of groups that something is directly in. */
const groupList = z.array(values.principalName, { error: 'expected a list of group names like ["everyone"]' });

const rules = {
  include: expression('entry.status == "active"')
    .exactOptional()
    .describe("True for the entries to take. Absent: all."),
  exclude: expression('entry.type == "service"')
    .exactOptional()
    .describe("True for the entries to leave out of those."),
  name: expression("lower(entry.uid)").describe("The name that identifies the principal."),
  displayName: attribute("entry.cn", absentName).describe("The name that people see."),
  description: attribute("entry.title", absentText).exactOptional().describe("A text or null."),
  groups: expression('["everyone"]').exactOptional().describe("Names of further groups it is directly in."),
};

/** Expressions for users. */
export const userRules = z.strictObject({
  ...rules,
  mail: attribute("entry.mail", absentText).exactOptional().describe("An address or null."),
});

/** Expressions for groups, which have no mail (B.5). */
export const groupRules = z.strictObject({
  ...rules,
  rename: z
    .record(values.principalName, values.principalName)
    .exactOptional()
    .describe("Other names for groups: the name that the rules give, and the one it gets."),
});

/** A group that exists whatever the sources say. */
const staticGroup = values.section({
  displayName: values.principalName.exactOptional().describe("The name that people see. Absent: its name."),
  description: z.string({ error: "expected a text" }).exactOptional().describe("A text."),
  groups: groupList.prefault([]).describe("Names of groups that it is directly in."),
});

const attempts = "expected a whole number from 0 to 100";

export const cron = values.text('a cron expression like "*/15 * * * *"').refine(isCron, {
  error: 'expected a cron expression like "*/15 * * * *" (minute, hour, day, month, weekday)',
});

/** Five fields, six with the seconds first, or a nickname like `@daily`; `H`, a random value, is another at every start. */
function isCron(value: string): boolean {
  const fields = value.trim().split(/\s+/);
  if (!(fields.length === 1 && value.startsWith("@")) && ![5, 6].includes(fields.length)) return false;
  if (fields.some((field) => /(?:^|,)H/i.test(field))) return false;
  try {
    CronExpressionParser.parse(value).next();
    return true;
  } catch {
    return false;
  }
}

/** When a sync runs, in `syncs.NAME`. */
const schedule = {
  schedule: cron.exactOptional().describe("When it runs, as a cron expression. Absent: only on demand."),
  timezone: values.timezone.exactOptional().describe("The time zone of the schedule. Absent: the system's."),
  jitter: values.duration
    .exactOptional()
    .describe("A run begins up to so much after its slot, another time at every slot. Absent: at once."),
  catchUp: z
    .boolean({ error: "expected true or false" })
    .prefault(true)
    .describe(
      "true: slots that passed while it could not run are made up for, once. false: the next slot is waited for.",
    ),
  retries: values
    .section({
      attempts: z
        .int({ error: attempts })
        .min(0, { error: attempts })
        .max(100, { error: attempts })
        .prefault(3)
        .describe("How often a run is tried again that failed because something did not answer."),
      first: values.duration
        .prefault("1m")
        .describe("How long until the first time; every further one waits twice as long."),
      most: values.duration.prefault("15m").describe("The longest wait."),
    })
    .describe("What becomes of a run that failed."),
  overdueAfter: values.duration
    .exactOptional()
    .describe("How long it may be without a success; then that is told, and /readyz says so. Absent: for ever."),
};

const patterns = z.array(values.text("a name, with * for any characters"), { error: 'expected a list like ["svc-*"]' });

const sourceName = values.text("the name of a source");
const optionalSource = z.strictObject({
  source: sourceName.describe("The name of a source."),
  optional: z
    .boolean()
    .prefault(false)
    .describe("true: when it cannot be read, what came from it stays as it is. Otherwise the run fails."),
  minUsers: values.atLeastOne.exactOptional().describe("The fewest users that it must have in scope; a limit."),
  minGroups: values.atLeastOne.exactOptional().describe("The fewest groups that it must have in scope; a limit."),
});

const noTime = "expected 0 or a duration like 7d";
const zero = z.int({ error: noTime }).min(0, { error: noTime }).max(0, { error: noTime });

/** `syncs.NAME`. */
export const sync = z.strictObject({
  from: z
    .array(z.union([sourceName, optionalSource]), { error: "expected a list of sources like [corp]" })
    .min(1, { error: "expected at least one source" })
    .describe("The sources that are read, by name; where entries are joined, the first one wins."),
  join: z
    .strictObject({
      users: expression("lower(entry.mail)").exactOptional().describe("What users of several sources are joined by."),
      groups: expression("lower(entry.cn)").exactOptional().describe("What groups of several sources are joined by."),
    })
    .exactOptional()
    .describe("Expressions that give entries of several sources that are one the same text. Absent: none are."),
  to: values.text("the name of a target").describe("The target that is written to, by name."),
  ...schedule,
  users: userRules.describe("What becomes of the sources' users: CEL expressions over `entry`."),
  groups: groupRules.exactOptional().describe("What becomes of the sources' groups. Absent: they are not taken over."),
  staticGroups: values
    .named(staticGroup, values.principalName)
    .describe("Groups that exist whatever the sources say, by name."),
  defaultGroups: groupList.prefault([]).describe("Names of groups that every user is directly in."),
  manage: z
    .enum(["owned", "everything"])
    .prefault("owned")
    .describe("owned: only what this sync created or adopted. everything: all that is not protected."),
  protect: values
    .section({
      users: patterns.prefault([]).describe("Names of users that are never touched."),
      groups: patterns.prefault([]).describe("Names of groups that are never touched."),
    })
    .describe("What is never touched."),
  deletions: values
    .section({
      after: z
        .union([zero, values.duration], { error: noTime })
        .prefault(0)
        .describe("How long a principal that is gone from the sources stays. 0: it is deleted at once."),
    })
    .describe("When principals are deleted."),
  renames: z
    .enum(["hold", "apply"])
    .prefault("apply")
    .describe("A known record with another name. apply: deleted and created anew. hold: it keeps the old name."),
  reusedNames: z
    .enum(["hold", "apply"])
    .prefault("hold")
    .describe("A known name with another record: somebody else. hold: it stays as it is. apply: it is taken over."),
  limits: limits.describe("What a run may change at most, and what it must find at least."),
  approval: z
    .enum(["required", "automatic", "automatic-within-limits"])
    .prefault("automatic")
    .describe(
      "Who lets a plan be applied. required: a person, always. automatic: nobody; what is beyond the limits is held. " +
        "automatic-within-limits: a person, where a limit is tripped.",
    ),
  approvalExpires: values.duration.prefault("24h").describe("How long a plan can be approved."),
  defaultPassword: z
    .string({ error: "expected a password" })
    .exactOptional()
    .describe("The password of every user that is created. Absent: a random one, known to nobody."),
  export: z
    .strictObject({
      database: values
        .text("the name of a database")
        .describe("A database of the target with the tables of config/sample/tables.sql."),
      schema: values.text("the name of a schema").exactOptional().describe("Absent: the database's default schema."),
    })
    .exactOptional()
    .describe("Where the target's users, groups and memberships are exported to after every run that changed them."),
  heartbeat: values.webAddress.exactOptional().describe("A URL that is requested after each success of the sync."),
});
export type Sync = z.infer<typeof sync>;
